package collect

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// dnsPort is that of every name server.
const dnsPort = "53"

// DNS is an Asker that asks for A and AAAA records over UDP, and over TCP where the
// answer does not fit. It asks the server itself, past /etc/hosts and caches. From is
// the name of the machine that asks.
func DNS(from string) Asker { return dns(from, dnsPort) }

func dns(from, port string) Asker {
	return func(ctx context.Context, server, name string) fact.Lookup {
		ctx, cancel := context.WithTimeout(ctx, LookupTimeout)
		defer cancel()
		l := fact.Lookup{Name: name, Server: server, From: from, Outcome: fact.LookupNone}
		at := net.JoinHostPort(server, port)
		for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
			found, err := question(ctx, at, name, kind)
			if err != nil {
				l.Outcome, l.Error = unanswered(err), err.Error()
				return l
			}
			l.Addresses = append(l.Addresses, found...)
		}
		if l.Addresses = sorted(l.Addresses); len(l.Addresses) > 0 {
			l.Outcome = fact.LookupOK
		}
		return l
	}
}

// unanswered tells silence from failure.
func unanswered(err error) string {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return fact.LookupSilent
	}
	return fact.LookupFailed
}

func question(ctx context.Context, at, name string, kind dnsmessage.Type) ([]string, error) {
	n, err := dnsmessage.NewName(name + ".")
	if err != nil {
		return nil, fmt.Errorf("ask for %q: not a name: %w", name, err)
	}
	q := dnsmessage.Question{Name: n, Type: kind, Class: dnsmessage.ClassINET}
	id := uint16(rand.Uint32())
	message := dnsmessage.Message{Header: dnsmessage.Header{ID: id, RecursionDesired: true}, Questions: []dnsmessage.Question{q}}
	packed, err := message.Pack()
	if err != nil {
		return nil, fmt.Errorf("ask for %q: %w", name, err)
	}
	for _, network := range []string{"udp", "tcp"} {
		answer, err := exchange(ctx, network, at, packed, id)
		if err != nil {
			return nil, err
		}
		addresses, whole, err := answered(answer, id, q)
		if err != nil || whole || network == "tcp" {
			return addresses, err
		}
	}
	return nil, nil // not reached: TCP's answer is the last
}

// exchange sends a question and returns the answer with its number; what else comes to
// the port is not looked at.
func exchange(ctx context.Context, network, at string, packed []byte, id uint16) ([]byte, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, at)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // nothing is left to be written
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // a connection that is closed says so below
	}
	if network == "tcp" {
		packed = append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...)
	}
	if _, err := conn.Write(packed); err != nil {
		return nil, err
	}
	if network == "tcp" {
		var size uint16
		if err := binary.Read(conn, binary.BigEndian, &size); err != nil {
			return nil, err
		}
		answer := make([]byte, size)
		_, err := io.ReadFull(conn, answer)
		return answer, err
	}
	for buffer := make([]byte, 4096); ; {
		n, err := conn.Read(buffer)
		if err != nil {
			return nil, err
		}
		if n >= 2 && binary.BigEndian.Uint16(buffer) == id {
			return buffer[:n], nil
		}
	}
}

// answered reads an answer: the addresses in it, and whether it is whole. A name that
// is not there has none.
func answered(data []byte, id uint16, q dnsmessage.Question) (addresses []string, whole bool, err error) {
	var m dnsmessage.Message
	switch err := m.Unpack(data); {
	case err != nil:
		return nil, false, fmt.Errorf("read answer: %w", err)
	case m.ID != id || !m.Response || len(m.Questions) != 1 || m.Questions[0].Type != q.Type:
		return nil, false, errors.New("read answer: of another question")
	case m.RCode != dnsmessage.RCodeSuccess && m.RCode != dnsmessage.RCodeNameError:
		return nil, false, fmt.Errorf("the server answers %s", m.RCode)
	}
	for _, a := range m.Answers {
		switch body := a.Body.(type) {
		case *dnsmessage.AResource:
			addresses = append(addresses, netip.AddrFrom4(body.A).String())
		case *dnsmessage.AAAAResource:
			addresses = append(addresses, netip.AddrFrom16(body.AAAA).String())
		}
	}
	return addresses, !m.Truncated, nil
}

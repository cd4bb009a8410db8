package probe

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"time"
)

// maxAnswer bounds the datagram that is read, and what of it is kept.
const maxAnswer = 512

// newDatagram returns the attempter of a udp:// path. A datagram is sent once
// and never again, so that an outage is seen as long as it is; TCP would wait a
// second before it repeats a lost SYN.
func newDatagram(p *Path) attempter {
	return attempts(p, func(ctx context.Context) (*datagramLink, error) { return dialDatagram(ctx, p) }, ask)
}

// datagramLink is a socket that hears one peer alone.
type datagramLink struct{ net.Conn }

func dialDatagram(ctx context.Context, p *Path) (*datagramLink, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", p.address())
	if err != nil {
		return nil, err
	}
	return &datagramLink{c}, nil
}

// ask sends a word that nobody can guess and waits for a datagram that begins
// with it. What follows it, after a space, is the name of who answered.
func ask(ctx context.Context, l *datagramLink) outcome {
	o := outcome{local: l.LocalAddr().String(), peer: l.RemoteAddr().String()}
	var nonce [8]byte
	_, _ = rand.Read(nonce[:]) // does not fail
	word := "holdfast-probe-" + hex.EncodeToString(nonce[:])
	if deadline, ok := ctx.Deadline(); ok {
		_ = l.SetReadDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { _ = l.SetReadDeadline(time.Now()) })
	defer stop()
	if _, err := l.Write([]byte(word)); err != nil {
		o.err = fmt.Errorf("send datagram: %w", err)
		return o
	}
	answer := make([]byte, maxAnswer)
	for {
		n, err := l.Read(answer)
		if err != nil {
			o.err = fmt.Errorf("wait for answer: %w", err)
			return o
		}
		if rest, ok := strings.CutPrefix(string(answer[:n]), word); ok {
			o.by = answerer(rest)
			return o
		}
	}
}

// answerer is the first word of text, "" when it is none that can be printed.
func answerer(text string) string {
	words := strings.Fields(text)
	if len(words) == 0 || len(words[0]) > 64 || strings.ContainsFunc(words[0], func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return words[0]
}

func (l *datagramLink) gone() error { return nil }
func (l *datagramLink) close()      { _ = l.Close() }

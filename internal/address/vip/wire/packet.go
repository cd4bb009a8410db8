package wire

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
)

// packet is what stands around an advert.
type packet struct {
	src, dst netip.Addr
	ttl      int
	payload  []byte
}

// errEnvelope is what the kernel does not produce: it has checked the header.
var errEnvelope = errors.New("parse packet: no complete IP header")

// ReasonStranger counts adverts to an address of this machine by somebody who is
// no peer.
const ReasonStranger vrrp.Reason = "stranger"

// parse4 splits an IPv4 packet as a raw socket delivers it, header included.
func parse4(b []byte) (packet, error) {
	if len(b) < 20 || b[0]>>4 != 4 {
		return packet{}, errEnvelope
	}
	header := int(b[0]&0xf) * 4
	if header < 20 || len(b) < header {
		return packet{}, errEnvelope
	}
	return packet{
		src: netip.AddrFrom4([4]byte(b[12:16])), dst: netip.AddrFrom4([4]byte(b[16:20])),
		ttl: int(b[8]), payload: b[header:],
	}, nil
}

// unwrap finds addresses and TTL: in the header, or with IPv6 in what the kernel
// tells beside the payload.
func (s *Socket) unwrap(b, oob []byte, from unix.Sockaddr) (packet, error) {
	if s.config.Family == vrrp.IPv4 {
		return parse4(b)
	}
	six, ok := from.(*unix.SockaddrInet6)
	if !ok {
		return packet{}, errEnvelope
	}
	p := packet{src: netip.AddrFrom16(six.Addr), ttl: -1, payload: b}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return p, fmt.Errorf("parse packet: %w", err)
	}
	for _, m := range messages {
		if m.Header.Level != unix.IPPROTO_IPV6 {
			continue
		}
		switch {
		case m.Header.Type == unix.IPV6_HOPLIMIT && len(m.Data) >= 4:
			// A small number in the machine's own order: one byte is not zero.
			p.ttl = int(max(m.Data[0], m.Data[3]))
		case m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= 16:
			p.dst = netip.AddrFrom16([16]byte(m.Data[:16]))
		}
	}
	if p.ttl < 0 || !p.dst.IsValid() {
		return p, errEnvelope
	}
	return p, nil
}

// judge says whether a packet is an advert of this link.
func (s *Socket) judge(p packet) (Heard, error) {
	if err := vrrp.CheckTTL(p.ttl); err != nil {
		return Heard{}, err
	}
	if !s.isPeer(p.src) {
		return Heard{}, &vrrp.Malformed{Reason: ReasonStranger, Detail: fmt.Sprintf("%s is no peer; add it to peers, or stop it", p.src)}
	}
	a, err := vrrp.Parse(p.payload, p.src, p.dst)
	if err != nil {
		return Heard{}, err
	}
	return Heard{Advert: a, Source: p.src}, nil
}

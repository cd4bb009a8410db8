package announce

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Op is the operation of an ARP packet.
type Op uint16

// The operations of RFC 826.
const (
	Request Op = 1
	Reply   Op = 2
)

const arpLength = 28

// ARP is an ARP packet for IPv4 over Ethernet, with the frame around it.
type ARP struct {
	To, From             MAC // of the frame
	Op                   Op
	SenderMAC, TargetMAC MAC
	Sender, Target       netip.Addr // IPv4; Sender is 0.0.0.0 in a probe
}

// Gratuitous returns the ARP packet by which mac claims addr. Both operations
// are in use: some stacks learn from requests only, some from replies only
// (RFC 5227 section 3 explains why a request is the better one). The target
// hardware address of the reply is the sender's: Linux takes a gratuitous reply
// for one only then, and without that it keeps an entry younger than 1 s.
func Gratuitous(addr netip.Addr, mac MAC, op Op) ARP {
	a := ARP{To: Broadcast, From: mac, Op: op, SenderMAC: mac, Sender: addr, Target: addr}
	if op == Reply {
		a.TargetMAC = mac
	}
	return a
}

// ProbeFor returns the question of RFC 5227 section 2.1.1 whether anybody uses
// addr: the sender is 0.0.0.0, so that no cache learns from it.
func ProbeFor(addr netip.Addr, mac MAC) ARP {
	return ARP{To: Broadcast, From: mac, Op: Request, SenderMAC: mac, Sender: netip.IPv4Unspecified(), Target: addr}
}

// Append appends the frame to b, padded to the shortest that Ethernet carries.
// Sender and Target have to be IPv4.
func (a ARP) Append(b []byte) []byte {
	start := len(b)
	b = appendEthernet(b, a.To, a.From, etherTypeARP)
	b = append(b, 0, 1, 8, 0, 6, 4) // Ethernet, IPv4, and their lengths
	b = binary.BigEndian.AppendUint16(b, uint16(a.Op))
	sender, target := a.Sender.As4(), a.Target.As4()
	b = append(b, a.SenderMAC[:]...)
	b = append(b, sender[:]...)
	b = append(b, a.TargetMAC[:]...)
	b = append(b, target[:]...)
	return append(b, make([]byte, shortest-(len(b)-start))...)
}

// ParseARP reads a frame.
func ParseARP(frame []byte) (ARP, error) {
	to, from, p, err := cutEthernet(frame, etherTypeARP)
	if err != nil {
		return ARP{}, fmt.Errorf("parse ARP: %w", err)
	}
	if len(p) < arpLength {
		return ARP{}, fmt.Errorf("parse ARP: %w", ErrShort)
	}
	if [6]byte(p) != [6]byte{0, 1, 8, 0, 6, 4} {
		return ARP{}, fmt.Errorf("parse ARP: %w: neither Ethernet nor IPv4", ErrKind)
	}
	a := ARP{
		To: to, From: from, Op: Op(binary.BigEndian.Uint16(p[6:])),
		SenderMAC: MAC(p[8:14]), Sender: netip.AddrFrom4([4]byte(p[14:18])),
		TargetMAC: MAC(p[18:24]), Target: netip.AddrFrom4([4]byte(p[24:28])),
	}
	if a.Op != Request && a.Op != Reply {
		return ARP{}, fmt.Errorf("parse ARP: %w: operation %d", ErrKind, a.Op)
	}
	return a, nil
}

// IsProbe reports whether the packet asks, as RFC 5227 does, whether Target is free.
func (a ARP) IsProbe() bool { return a.Op == Request && a.Sender.IsUnspecified() }

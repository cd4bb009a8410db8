package announce

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// The messages of RFC 4861 that speak of one address.
const (
	Solicitation  uint8 = 135
	Advertisement uint8 = 136
)

const (
	ipv6Length     = 40
	neighborLength = 24 // of ICMPv6, without options
	protocolICMPv6 = 58

	flagRouter    = 0x80
	flagSolicited = 0x40
	flagOverride  = 0x20

	optionSource = 1 // source link-layer address, in a solicitation
	optionTarget = 2 // target link-layer address, in an advertisement
)

var allNodes = netip.MustParseAddr("ff02::1")

// Neighbor is a neighbor solicitation or advertisement over Ethernet, with the
// headers around it. It carries at most one option, that of its link-layer
// address; others are skipped.
type Neighbor struct {
	To, From    MAC // of the frame
	Source      netip.Addr
	Destination netip.Addr
	Type        uint8 // Solicitation or Advertisement
	// Router, Solicited and Override are the flags of an advertisement.
	Router, Solicited, Override bool
	Target                      netip.Addr
	// LinkLayer is the hardware address in the option; zero without one.
	LinkLayer MAC
}

// Unsolicited returns the advertisement by which mac claims addr: to all nodes,
// overriding what they have cached (RFC 4861 section 7.2.6). router has to say
// what the machine is: a host that had heard "router" and hears otherwise drops
// the routes that lead through it.
func Unsolicited(addr netip.Addr, mac MAC, router bool) Neighbor {
	return Neighbor{
		To: groupMAC(allNodes), From: mac, Source: addr, Destination: allNodes,
		Type: Advertisement, Router: router, Override: true, Target: addr, LinkLayer: mac,
	}
}

// SolicitFor returns the question of duplicate address detection (RFC 4862
// section 5.4.2) whether anybody uses addr: the source is ::, so that no cache
// learns from it and the answer goes to all nodes.
func SolicitFor(addr netip.Addr, mac MAC) Neighbor {
	group := solicitedNode(addr)
	return Neighbor{
		To: groupMAC(group), From: mac, Source: netip.IPv6Unspecified(), Destination: group,
		Type: Solicitation, Target: addr,
	}
}

// IsProbe reports whether the message is duplicate address detection.
func (n Neighbor) IsProbe() bool { return n.Type == Solicitation && n.Source.IsUnspecified() }

// solicitedNode is the group that everybody with the address has joined.
func solicitedNode(addr netip.Addr) netip.Addr {
	group, a := netip.MustParseAddr("ff02::1:ff00:0").As16(), addr.As16()
	copy(group[13:], a[13:])
	return netip.AddrFrom16(group)
}

// groupMAC is the Ethernet group of an IPv6 group (RFC 2464 section 7).
func groupMAC(group netip.Addr) MAC {
	g := group.As16()
	return MAC{0x33, 0x33, g[12], g[13], g[14], g[15]}
}

// Append appends the frame to b.
func (n Neighbor) Append(b []byte) []byte {
	b = appendEthernet(b, n.To, n.From, etherTypeIPv6)
	body := n.appendICMP(nil)
	source, destination := n.Source.As16(), n.Destination.As16()
	b = append(b, 6<<4, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(body)))
	b = append(b, protocolICMPv6, 255)
	b = append(b, source[:]...)
	b = append(b, destination[:]...)
	binary.BigEndian.PutUint16(body[2:], ^sum(source, destination, body))
	return append(b, body...)
}

func (n Neighbor) appendICMP(b []byte) []byte {
	var flags byte
	for _, f := range []struct {
		set bool
		bit byte
	}{{n.Router, flagRouter}, {n.Solicited, flagSolicited}, {n.Override, flagOverride}} {
		if f.set {
			flags |= f.bit
		}
	}
	target := n.Target.As16()
	b = append(b, n.Type, 0, 0, 0, flags, 0, 0, 0)
	b = append(b, target[:]...)
	if n.LinkLayer == (MAC{}) {
		return b
	}
	b = append(b, n.option(), 1) // one unit of eight bytes
	return append(b, n.LinkLayer[:]...)
}

// option is the kind of link-layer option that belongs into the message.
func (n Neighbor) option() byte {
	if n.Type == Solicitation {
		return optionSource
	}
	return optionTarget
}

// sum is the one's complement sum of the pseudo header (RFC 8200 section 8.1)
// and body. Over a correct body with its checksum in place it is 0xffff.
func sum(source, destination [16]byte, body []byte) uint16 {
	total := uint32(len(body)) + protocolICMPv6
	for _, part := range [][]byte{source[:], destination[:], body} {
		for ; len(part) >= 2; part = part[2:] {
			total += uint32(part[0])<<8 | uint32(part[1])
		}
		if len(part) == 1 {
			total += uint32(part[0]) << 8
		}
	}
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return uint16(total)
}

// ParseNDP reads a frame and validates it as RFC 4861 sections 7.1.1 and 7.1.2 ask.
func ParseNDP(frame []byte) (Neighbor, error) {
	n, body, err := parseIPv6(frame)
	if err == nil {
		err = n.parseICMP(body)
	}
	if err != nil {
		return Neighbor{}, fmt.Errorf("parse neighbor discovery: %w", err)
	}
	return n, nil
}

func parseIPv6(frame []byte) (n Neighbor, body []byte, err error) {
	to, from, p, err := cutEthernet(frame, etherTypeIPv6)
	if err != nil {
		return n, nil, err
	}
	if len(p) < ipv6Length {
		return n, nil, ErrShort
	}
	if p[0]>>4 != 6 || p[6] != protocolICMPv6 {
		return n, nil, ErrKind
	}
	length := int(binary.BigEndian.Uint16(p[4:]))
	if length < neighborLength || len(p) < ipv6Length+length {
		return n, nil, ErrShort
	}
	n = Neighbor{To: to, From: from, Source: netip.AddrFrom16([16]byte(p[8:24])), Destination: netip.AddrFrom16([16]byte(p[24:40]))}
	body = p[ipv6Length : ipv6Length+length]
	if body[0] != Solicitation && body[0] != Advertisement {
		return n, nil, ErrKind
	}
	if p[7] != 255 { // has crossed a router
		return n, nil, ErrHopLimit
	}
	return n, body, nil
}

func (n *Neighbor) parseICMP(body []byte) error {
	if sum(n.Source.As16(), n.Destination.As16(), body) != 0xffff {
		return ErrChecksum
	}
	n.Type, n.Target = body[0], netip.AddrFrom16([16]byte(body[8:24]))
	if body[1] != 0 || n.Target.IsMulticast() {
		return fmt.Errorf("%w: code %d, target %s", ErrFormat, body[1], n.Target)
	}
	if n.Type == Advertisement {
		n.Router, n.Solicited, n.Override = body[4]&flagRouter != 0, body[4]&flagSolicited != 0, body[4]&flagOverride != 0
		if n.Solicited && n.Destination.IsMulticast() {
			return fmt.Errorf("%w: solicited, yet sent to a group", ErrFormat)
		}
	}
	for options := body[neighborLength:]; len(options) > 0; {
		size := 0
		if len(options) >= 2 {
			size = int(options[1]) * 8
		}
		if size == 0 || size > len(options) {
			return fmt.Errorf("%w: option length", ErrFormat)
		}
		if options[0] == n.option() && size == 8 {
			n.LinkLayer = MAC(options[2:8])
		}
		options = options[size:]
	}
	if n.IsProbe() && n.LinkLayer != (MAC{}) {
		return fmt.Errorf("%w: a probe tells its hardware address", ErrFormat)
	}
	return nil
}

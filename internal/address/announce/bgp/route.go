package bgp

import (
	"fmt"
	"net/netip"
	"slices"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// graceful is GRACEFUL_SHUTDOWN, RFC 8326 section 4.1.
const graceful = 0xFFFF0000

// asTrans stands for a number that a peer without RFC 6793 cannot read.
const asTrans = 23456

// Local are the addresses of this machine on the way to a peer: what it is to
// use as next hop unless settings say otherwise. One may be invalid.
type Local struct{ Four, Six netip.Addr }

// Agreed is what both ends of a session can do, from their OPEN messages.
type Agreed struct {
	AS       uint32 // the peer's
	RouterID netip.Addr
	// Hold is the smaller of both; 0: silence means nothing.
	Hold int // seconds
	// Four and Six are the families that both want.
	Four, Six bool
	// FourOctet says that the peer reads numbers of four octets, NextHop6 that it
	// takes an IPv6 next hop for IPv4 (RFC 8950), and Refresh that it asks for
	// routes again (RFC 2918).
	FourOctet, NextHop6, Refresh bool
}

// update announces prefixes of one family to a peer, or says why it cannot.
func update(p *peerConfig, a Agreed, l Local, prefixes []netip.Prefix, gshut bool) (*packet.BGPMessage, error) {
	next, err := nextHop(p, a, l, prefixes[0].Addr().Is4())
	if err != nil {
		return nil, err
	}
	list, err := nlri(prefixes)
	if err != nil {
		return nil, err
	}
	attrs := attributes(p, a, gshut)
	if prefixes[0].Addr().Is4() && next.Is4() {
		hop, err := packet.NewPathAttributeNextHop(next)
		if err != nil {
			return nil, fmt.Errorf("build next hop: %w", err)
		}
		return packet.NewBGPUpdateMessage(nil, inOrder(append(attrs, hop)), list), nil
	}
	family := packet.RF_IPv6_UC
	if prefixes[0].Addr().Is4() {
		family = packet.RF_IPv4_UC
	}
	reach, err := packet.NewPathAttributeMpReachNLRI(family, list, next.WithZone(""))
	if err != nil {
		return nil, fmt.Errorf("build routes: %w", err)
	}
	// First, RFC 7606 section 5.1.
	return packet.NewBGPUpdateMessage(nil, append([]packet.PathAttributeInterface{reach}, attrs...), nil), nil
}

// nextHop is where the peer is to send packets.
func nextHop(p *peerConfig, a Agreed, l Local, four bool) (netip.Addr, error) {
	six := l.Six
	if p.next6.IsValid() {
		six = p.next6
	}
	switch {
	case !four && six.IsValid():
		return six, nil
	case !four:
		return six, fmt.Errorf("no IPv6 next hop: the interface to %v has no global address; set nextHopIPv6", p.address)
	case p.next4.IsValid():
		return p.next4, nil
	case l.Four.IsValid():
		return l.Four, nil
	case a.NextHop6 && six.IsValid():
		return six, nil
	}
	return l.Four, fmt.Errorf("no IPv4 next hop: the interface to %v has no address; set nextHopIPv4", p.address)
}

func attributes(p *peerConfig, a Agreed, gshut bool) []packet.PathAttributeInterface {
	attrs := []packet.PathAttributeInterface{packet.NewPathAttributeOrigin(packet.BGP_ORIGIN_ATTR_TYPE_IGP)}
	attrs = append(attrs, path(p, a)...)
	if p.med != nil {
		attrs = append(attrs, packet.NewPathAttributeMultiExitDisc(*p.med))
	}
	if p.internal() {
		pref := p.pref
		if gshut {
			pref = 0 // RFC 8326 section 4.2
		}
		attrs = append(attrs, packet.NewPathAttributeLocalPref(pref))
	}
	communities := slices.Clone(p.communities)
	if gshut && !slices.Contains(communities, graceful) {
		communities = append(communities, graceful)
	}
	if len(communities) > 0 {
		attrs = append(attrs, packet.NewPathAttributeCommunities(communities))
	}
	if len(p.large) > 0 {
		var all []*packet.LargeCommunity
		for _, c := range p.large {
			all = append(all, packet.NewLargeCommunity(c[0], c[1], c[2]))
		}
		attrs = append(attrs, packet.NewPathAttributeLargeCommunities(all))
	}
	return attrs
}

// path is AS_PATH and, for a peer of old, AS4_PATH, RFC 6793 section 4.2.2.
func path(p *peerConfig, a Agreed) []packet.PathAttributeInterface {
	if p.internal() {
		return []packet.PathAttributeInterface{packet.NewPathAttributeAsPath(nil)}
	}
	wide := slices.Repeat([]uint32{p.ours}, 1+p.prepend)
	if a.FourOctet {
		return []packet.PathAttributeInterface{packet.NewPathAttributeAsPath([]packet.AsPathParamInterface{
			packet.NewAs4PathParam(packet.BGP_ASPATH_ATTR_TYPE_SEQ, wide),
		})}
	}
	narrow := slices.Repeat([]uint16{twoOctets(p.ours)}, 1+p.prepend)
	attrs := []packet.PathAttributeInterface{packet.NewPathAttributeAsPath([]packet.AsPathParamInterface{
		packet.NewAsPathParam(packet.BGP_ASPATH_ATTR_TYPE_SEQ, narrow),
	})}
	if p.ours > 65535 {
		attrs = append(attrs, packet.NewPathAttributeAs4Path([]*packet.As4PathParam{
			packet.NewAs4PathParam(packet.BGP_ASPATH_ATTR_TYPE_SEQ, wide),
		}))
	}
	return attrs
}

func twoOctets(as uint32) uint16 {
	if as > 65535 {
		return asTrans
	}
	return uint16(as)
}

// inOrder sorts attributes by type, RFC 4271 section 5.
func inOrder(attrs []packet.PathAttributeInterface) []packet.PathAttributeInterface {
	slices.SortStableFunc(attrs, func(a, b packet.PathAttributeInterface) int { return int(a.GetType()) - int(b.GetType()) })
	return attrs
}

// withdrawal takes prefixes of one family back.
func withdrawal(prefixes []netip.Prefix) (*packet.BGPMessage, error) {
	list, err := nlri(prefixes)
	if err != nil {
		return nil, err
	}
	if prefixes[0].Addr().Is4() {
		return packet.NewBGPUpdateMessage(list, nil, nil), nil
	}
	unreach, err := packet.NewPathAttributeMpUnreachNLRI(packet.RF_IPv6_UC, list)
	if err != nil {
		return nil, fmt.Errorf("build withdrawal: %w", err)
	}
	return packet.NewBGPUpdateMessage(nil, []packet.PathAttributeInterface{unreach}, nil), nil
}

func nlri(prefixes []netip.Prefix) ([]packet.PathNLRI, error) {
	var all []packet.PathNLRI
	for _, p := range prefixes {
		n, err := packet.NewIPAddrPrefix(p)
		if err != nil {
			return nil, fmt.Errorf("build prefix: %w", err)
		}
		all = append(all, packet.PathNLRI{NLRI: n})
	}
	return all, nil
}

// opening is the OPEN message to a peer.
func opening(p *peerConfig, routerID netip.Addr) (*packet.BGPMessage, error) {
	caps := []packet.ParameterCapabilityInterface{packet.NewCapRouteRefresh(), packet.NewCapFourOctetASNumber(p.ours)}
	if p.four {
		caps = append(caps, packet.NewCapMultiProtocol(packet.RF_IPv4_UC))
		caps = append(caps, packet.NewCapExtendedNexthop([]*packet.CapExtendedNexthopTuple{
			packet.NewCapExtendedNexthopTuple(packet.RF_IPv4_UC, packet.AFI_IP6),
		}))
	}
	if p.six {
		caps = append(caps, packet.NewCapMultiProtocol(packet.RF_IPv6_UC))
	}
	m, err := packet.NewBGPOpenMessage(twoOctets(p.ours), uint16(p.hold.Seconds()), routerID,
		[]packet.OptionParameterInterface{packet.NewOptionParameterCapability(caps)})
	if err != nil {
		return nil, fmt.Errorf("build OPEN: %w", err)
	}
	return m, nil
}

// agree reads the peer's OPEN. It takes what the peer wants, not yet whether it
// is the right peer.
func agree(p *peerConfig, o *packet.BGPOpen) Agreed {
	a := Agreed{AS: uint32(o.MyAS), RouterID: o.ID, Hold: min(int(o.HoldTime), int(p.hold.Seconds()))}
	var four, six, multi bool
	for _, option := range o.OptParams {
		list, ok := option.(*packet.OptionParameterCapability)
		if !ok {
			continue
		}
		for _, c := range list.Capability {
			switch c := c.(type) {
			case *packet.CapFourOctetASNumber:
				a.FourOctet, a.AS = true, c.CapValue
			case *packet.CapRouteRefresh:
				a.Refresh = true
			case *packet.CapMultiProtocol:
				multi = true
				four = four || c.CapValue == packet.RF_IPv4_UC
				six = six || c.CapValue == packet.RF_IPv6_UC
			case *packet.CapExtendedNexthop:
				for _, t := range c.Tuples {
					a.NextHop6 = a.NextHop6 || t.NLRIAFI == packet.AFI_IP && t.NLRISAFI == packet.SAFI_UNICAST && t.NexthopAFI == packet.AFI_IP6
				}
			}
		}
	}
	// Without the capability of RFC 4760 a peer speaks IPv4 unicast.
	a.Four, a.Six = p.four && (four || !multi), p.six && six
	return a
}

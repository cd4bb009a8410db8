package vrrp

import (
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Protocol is the number that IP gives VRRP (RFC 9568 section 5.1.1.4).
const Protocol = 112

// TTL is what every advert is sent with, and what one must arrive with: no
// router has passed it on (RFC 5082).
const TTL = 255

// Groups that adverts are sent to unless peers are named one by one
// (RFC 9568 sections 5.1.1.2 and 5.1.2.2).
var (
	Multicast4 = netip.AddrFrom4([4]byte{224, 0, 0, 18})
	Multicast6 = netip.MustParseAddr("ff02::12")
)

// Family is an address family: the virtual routers of the two are strangers
// to each other, even with one VRID (RFC 9568 section 1).
type Family int

const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// Multicast returns the group of the family.
func (f Family) Multicast() netip.Addr {
	if f == IPv6 {
		return Multicast6
	}
	return Multicast4
}

// has says whether an address is of the family.
func (f Family) has(a netip.Addr) bool {
	return f == IPv4 && a.Is4() || f == IPv6 && a.Is6() && !a.Is4In6()
}

// MAC returns the virtual router's link-layer address, 00:00:5e:00:01:VRID or
// 00:00:5e:00:02:VRID (RFC 9568 section 7.3).
func (f Family) MAC(vrid uint8) net.HardwareAddr {
	kind := byte(1)
	if f == IPv6 {
		kind = 2
	}
	return net.HardwareAddr{0x00, 0x00, 0x5e, 0x00, kind, vrid}
}

// CheckTTL returns a *Malformed with ReasonTTL unless an advert came from the
// same link. The shell calls it: the TTL stands in a header that Parse does
// not see.
func CheckTTL(ttl int) error {
	if ttl != TTL {
		return malformed(ReasonTTL, "TTL or hop limit %d, not %d: it did not come from this link", ttl, TTL)
	}
	return nil
}

// Bounds of what the field of an advert can carry.
const (
	// centisecond is the unit of version 3, in 12 bits (RFC 9568 section 5.2.7).
	centisecond = 10 * time.Millisecond
	minInterval = centisecond
	maxInterval = 4095 * centisecond
	// Version 2 counts whole seconds in 8 bits (RFC 3768 section 5.3.7).
	minInterval2 = time.Second
	maxInterval2 = 255 * time.Second
)

// checkInterval says in one line what is wrong with an interval.
func checkInterval(version int, d time.Duration) error {
	unit, least, most := centisecond, minInterval, maxInterval
	if version == 2 {
		unit, least, most = time.Second, minInterval2, maxInterval2
	}
	switch {
	case d < least || d > most:
		return fmt.Errorf("interval %s: VRRPv%d carries %s to %s; set one of these", d, version, least, most)
	case d%unit != 0:
		return fmt.Errorf("interval %s: VRRPv%d carries whole multiples of %s; set %s", d, version, unit, d.Round(unit))
	}
	return nil
}

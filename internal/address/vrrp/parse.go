package vrrp

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// Parse reads the payload of an IP packet from src to dst. Every error is a
// *Malformed. The advert returned beside one holds what could be read before
// the fault, for a line that says who sends what: with ReasonAuth all of it,
// with the other reasons at most the fixed fields.
//
// A caller checks the TTL as well, with CheckTTL. Whether the advert is meant
// for this virtual router is for Machine.Receive to say.
func Parse(b []byte, src, dst netip.Addr) (Advert, error) {
	var a Advert
	src, dst = src.Unmap(), dst.Unmap()
	if len(b) < headerLength {
		return a, malformed(ReasonLength, "%d bytes, less than a header of %d", len(b), headerLength)
	}
	if src.Is4() != dst.Is4() || !src.IsValid() || !dst.IsValid() {
		return a, malformed(ReasonFamily, "from %s to %s: two families", src, dst)
	}
	a.Version, a.VRID, a.Priority = int(b[0]>>4), b[1], b[2]
	if a.Version != 3 && !(a.Version == 2 && src.Is4()) {
		return a, malformed(ReasonVersion, "VRRP version %d from %s: 3, or 2 over IPv4, is understood", a.Version, src)
	}
	if kind := b[0] & 0xf; kind != typeAdvertisement {
		return a, malformed(ReasonType, "packet type %d: 1 is the only one", kind)
	}
	if want := a.size(int(b[3]), src); len(b) != want {
		return a, malformed(ReasonLength, "%d bytes, and %d addresses make %d", len(b), b[3], want)
	}
	if !a.sound(b, src, dst) {
		return a, malformed(ReasonChecksum, "the checksum is wrong")
	}
	return a, a.read(b, src)
}

// size is how long a message with so many addresses is.
func (a *Advert) size(count int, src netip.Addr) int {
	size := headerLength + count*src.BitLen()/8
	if a.Version == 2 {
		size += authLength
	}
	return size
}

// sound verifies the checksum: all words together, the checksum among them,
// make all ones.
func (a *Advert) sound(b []byte, src, dst netip.Addr) bool {
	plain := sum(0, b)
	if a.Version == 2 {
		return fold(plain) == 0xffff
	}
	if fold(plain+pseudo(src, dst, len(b))) == 0xffff {
		return true
	}
	a.PlainChecksum = src.Is4() && fold(plain) == 0xffff
	return a.PlainChecksum
}

// read takes the fields out of a message whose length and checksum are right.
func (a *Advert) read(b []byte, src netip.Addr) error {
	if a.VRID == 0 {
		return malformed(ReasonVRID, "VRID 0: 1 to 255 are valid")
	}
	count := int(b[3])
	if count == 0 {
		// RFC 9568 section 5.2.5: ignored. In version 2 it makes no sense either.
		return malformed(ReasonCount, "VRID %d without an address", a.VRID)
	}
	if a.Version == 2 {
		a.Interval = time.Duration(b[5]) * time.Second
		a.Auth.Type = AuthType(b[4])
		copy(a.Auth.Data[:], b[len(b)-authLength:])
	} else {
		a.Interval = time.Duration(binary.BigEndian.Uint16(b[4:])&0xfff) * centisecond
	}
	if a.Interval == 0 {
		return malformed(ReasonInterval, "VRID %d with an interval of 0", a.VRID)
	}
	a.Addresses = make([]netip.Addr, count)
	width := src.BitLen() / 8
	for i := range a.Addresses {
		a.Addresses[i], _ = netip.AddrFromSlice(b[headerLength+i*width:][:width])
	}
	if a.Auth.Type != AuthNone {
		return malformed(ReasonAuth, "VRID %d authenticates itself (type %d); take the authentication out on %s, it protects nothing", a.VRID, a.Auth.Type, src)
	}
	return nil
}

package vrrp

import (
	"encoding/binary"
	"net/netip"
	"time"
)

const (
	typeAdvertisement = 1 // the only type there is (RFC 9568 section 5.2.2)
	headerLength      = 8
	authLength        = 8 // version 2 always ends in it (RFC 3768 section 5.3.10)
	maxAddresses      = 255
)

// AuthType is the way of version 2 to authenticate. RFC 3768 took it back:
// a password in the clear on the link it protects from nobody.
type AuthType uint8

const (
	AuthNone     AuthType = 0
	AuthPassword AuthType = 1 // keepalived's auth_type PASS
	AuthHeader   AuthType = 2 // keepalived's auth_type AH
)

// Auth is the end of a version 2 advert. We send none and obey none: Parse
// returns what it found with ReasonAuth.
type Auth struct {
	Type AuthType
	Data [authLength]byte
}

// Advert is one ADVERTISEMENT.
type Advert struct {
	// Version is 2 (RFC 3768, IPv4) or 3 (RFC 9568).
	Version int
	// VRID is 1 to 255.
	VRID uint8
	// Priority is 1 to 254, 255 of the owner, or 0 of who resigns.
	Priority uint8
	// Interval is how often the active router promises to send: version 3 in
	// steps of 10 ms up to 40.95 s, version 2 in whole seconds up to 255 s.
	Interval time.Duration
	// Addresses of the virtual router, 1 to 255, of the packet's own family.
	Addresses []netip.Addr
	// Auth is used in version 2 only.
	Auth Auth
	// PlainChecksum says that a version 3 checksum over IPv4 leaves the
	// pseudo header out, as some routers compute it (RFC 5798 could be read
	// both ways). keepalived and FRR put it in unless told otherwise. Parse
	// takes both and says here which it met.
	PlainChecksum bool
}

// Append appends the advert as the payload of an IP packet from src to dst,
// which the checksum of version 3 covers. An interval that the field cannot
// hold becomes the nearest that it can, and addresses after the 255th are
// left out; Config.Validate refuses both.
func (a *Advert) Append(b []byte, src, dst netip.Addr) []byte {
	start := len(b)
	addresses := a.Addresses[:min(len(a.Addresses), maxAddresses)]
	b = append(b, byte(a.Version)<<4|typeAdvertisement, a.VRID, a.Priority, byte(len(addresses)))
	if a.Version == 2 {
		b = append(b, byte(a.Auth.Type), byte(units(a.Interval, time.Second, 255)), 0, 0)
	} else {
		// The four bits above are reserved: zero (RFC 9568 section 5.2.6).
		b = binary.BigEndian.AppendUint16(b, units(a.Interval, centisecond, 4095))
		b = append(b, 0, 0)
	}
	for _, address := range addresses {
		b = append(b, address.AsSlice()...)
	}
	if a.Version == 2 {
		b = append(b, a.Auth.Data[:]...)
	}
	message := b[start:]
	acc := sum(0, message)
	if a.Version != 2 && !(a.PlainChecksum && src.Is4()) {
		acc += pseudo(src, dst, len(message))
	}
	binary.BigEndian.PutUint16(message[6:], ^fold(acc))
	return b
}

// units is a duration in units, rounded, at least one and at most most.
func units(d, unit time.Duration, most int64) uint16 {
	return uint16(max(1, min(most, int64(d.Round(unit)/unit))))
}

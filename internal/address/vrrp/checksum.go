package vrrp

import (
	"encoding/binary"
	"net/netip"
)

// sum adds b to a one's complement sum (RFC 1071); an odd last byte counts as
// the high half of a word.
func sum(acc uint32, b []byte) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		acc += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		acc += uint32(b[0]) << 8
	}
	return acc
}

// fold makes 16 bits of a sum, without the final complement.
func fold(acc uint32) uint16 {
	for acc > 0xffff {
		acc = acc>>16 + acc&0xffff
	}
	return uint16(acc)
}

// pseudo sums the header that stands for the addresses: that of RFC 8200
// section 8.1, and for IPv4 its older brother with the same fields.
func pseudo(src, dst netip.Addr, length int) uint32 {
	acc := uint32(Protocol) + uint32(length)
	for _, a := range [2]netip.Addr{src, dst} {
		if a.Is4() {
			b := a.As4()
			acc = sum(acc, b[:])
		} else {
			b := a.As16()
			acc = sum(acc, b[:])
		}
	}
	return acc
}

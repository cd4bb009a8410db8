package announce

import (
	"encoding/binary"
	"errors"
)

// Why a frame was not understood; Parse errors wrap one of them.
var (
	ErrShort    = errors.New("frame too short")
	ErrKind     = errors.New("not a frame of this kind")
	ErrFormat   = errors.New("malformed")
	ErrChecksum = errors.New("wrong checksum")
	ErrHopLimit = errors.New("hop limit is not 255")
)

const (
	ethernetLength = 14
	// shortest is what an Ethernet frame has without its check sequence. The
	// kernel pads, but a virtual wire carries frames as they are sent.
	shortest = 60

	etherTypeARP  = 0x0806
	etherTypeIPv6 = 0x86dd
)

// appendEthernet appends the header of an untagged frame.
func appendEthernet(b []byte, to, from MAC, etherType uint16) []byte {
	b = append(b, to[:]...)
	b = append(b, from[:]...)
	return binary.BigEndian.AppendUint16(b, etherType)
}

// cutEthernet splits a frame after its header.
func cutEthernet(frame []byte, etherType uint16) (to, from MAC, body []byte, err error) {
	if len(frame) < ethernetLength {
		return to, from, nil, ErrShort
	}
	if binary.BigEndian.Uint16(frame[12:]) != etherType {
		return to, from, nil, ErrKind
	}
	return MAC(frame[:6]), MAC(frame[6:12]), frame[ethernetLength:], nil
}

package announce

import (
	"fmt"
	"net"
)

// MAC is an Ethernet address, comparable.
type MAC [6]byte

// Broadcast is the destination of every gratuitous ARP.
var Broadcast = MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// MACFrom converts a hardware address, which has to be one of Ethernet: six
// bytes, not a group's and not all zero.
func MACFrom(hw net.HardwareAddr) (MAC, error) {
	if len(hw) != len(MAC{}) {
		return MAC{}, fmt.Errorf("read hardware address %q: %d bytes, want 6 of Ethernet", hw, len(hw))
	}
	m := MAC(hw)
	if m[0]&1 != 0 || m == (MAC{}) {
		return MAC{}, fmt.Errorf("read hardware address %q: not the address of one station", hw)
	}
	return m, nil
}

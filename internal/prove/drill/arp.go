package drill

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// ARP as in RFC 826, over Ethernet and for IPv4.
const (
	etherARP   = 0x0806
	arpLength  = 14 + 28
	arpRequest = 1
	arpReply   = 2
)

var errNoARP = errors.New("no ARP of IPv4 over Ethernet")

// arpAnswer is who says that it has an address.
type arpAnswer struct {
	mac  net.HardwareAddr
	addr netip.Addr
}

// arpQuestion is a frame that asks everybody who has addr. It asks in the name of
// a station that does not exist and has no address (RFC 5227, section 2.1.1): the
// answer comes to a MAC address of nobody, so that no kernel learns anything from
// question or answer, least of all that of the clients.
func arpQuestion(from net.HardwareAddr, addr netip.Addr) []byte {
	b := make([]byte, 0, arpLength)
	b = append(b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	b = append(b, from...)
	for _, v := range []uint16{etherARP, 1, 0x0800, 0x0604, arpRequest} {
		b = binary.BigEndian.AppendUint16(b, v)
	}
	b = append(b, from...)
	b = append(b, make([]byte, 4+6)...) // from no address, to whom is not known
	return append(b, addr.AsSlice()...)
}

// parseARPAnswer reads a frame to the MAC address to; an error says that it is no
// answer.
func parseARPAnswer(b []byte, to net.HardwareAddr) (arpAnswer, error) {
	if len(b) < arpLength {
		return arpAnswer{}, errNoARP
	}
	for at, want := range map[int]uint16{12: etherARP, 14: 1, 16: 0x0800, 18: 0x0604, 20: arpReply} {
		if binary.BigEndian.Uint16(b[at:]) != want {
			return arpAnswer{}, errNoARP
		}
	}
	if string(b[:6]) != string(to) {
		return arpAnswer{}, errNoARP
	}
	return arpAnswer{
		mac:  net.HardwareAddr(append([]byte(nil), b[22:28]...)),
		addr: netip.AddrFrom4([4]byte(b[28:32])),
	}, nil
}

// openARP opens a socket for frames of ARP on an interface of the namespace of
// the calling thread.
func openARP(ifname string) (*os.File, error) {
	const network = etherARP>>8 | etherARP&0xff<<8 // in network byte order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, network)
	if err != nil {
		return nil, fmt.Errorf("open ARP socket: %w", err)
	}
	iface, err := net.InterfaceByName(ifname)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: network, Ifindex: iface.Index})
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("open ARP socket on %s: %w", ifname, err)
	}
	return os.NewFile(uintptr(fd), "arp"), nil
}

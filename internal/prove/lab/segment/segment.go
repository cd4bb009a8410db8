package segment

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// Interface is the name of every station's only interface besides lo.
const Interface = "eth0"

// Segment is a bridge with stations on it.
type Segment struct {
	hub      *side
	bridge   netlink.Link
	stations []*Station
}

// Station is a machine on the segment.
type Station struct {
	*space.Space
	// Netlink configures its interfaces.
	Netlink *netlink.Handle
	// Four and Six are its own addresses.
	Four, Six netip.Addr
	MAC       net.HardwareAddr

	segment *Segment
	port    netlink.Link // at the bridge
}

type side struct {
	space *space.Space
	nl    *netlink.Handle
}

// New makes a segment with n stations, at most 99. It needs root.
func New(n int) (*Segment, error) {
	g := &Segment{}
	if err := g.build(n); err != nil {
		_ = g.Close()
		return nil, fmt.Errorf("make segment: %w", err)
	}
	return g, nil
}

func (g *Segment) build(n int) error {
	hub, err := newSide()
	if err != nil {
		return err
	}
	g.hub = hub
	off := false
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}, MulticastSnooping: &off}
	if err := hub.nl.LinkAdd(bridge); err != nil {
		return fmt.Errorf("add bridge: %w", err)
	}
	g.bridge = bridge
	if err := hub.nl.LinkSetUp(bridge); err != nil {
		return fmt.Errorf("set bridge up: %w", err)
	}
	for i := 1; i <= n; i++ {
		if err := g.add(byte(i)); err != nil {
			return fmt.Errorf("add station %d: %w", i, err)
		}
	}
	for i, s := range g.stations {
		if err := s.connected(); err != nil {
			return fmt.Errorf("connect station %d: %w", i+1, err)
		}
	}
	return nil
}

func newSide() (*side, error) {
	s, err := space.New()
	if err != nil {
		return nil, err
	}
	nl, err := netlink.NewHandleAt(netns.NsHandle(s.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	lo, err := nl.LinkByName("lo")
	if err == nil {
		err = nl.LinkSetUp(lo)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set lo up: %w", err), s.Close())
	}
	return &side{s, nl}, nil
}

func (g *Segment) add(i byte) error {
	own, err := newSide()
	if err != nil {
		return err
	}
	s := &Station{
		Space: own.space, Netlink: own.nl, segment: g, MAC: net.HardwareAddr{2, 0, 0, 0, 0, i},
		Four: netip.AddrFrom4([4]byte{192, 0, 2, i}),
		Six:  netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: i}),
	}
	g.stations = append(g.stations, s)
	name := fmt.Sprintf("port%d", i)
	pair := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: name, MasterIndex: g.bridge.Attrs().Index},
		PeerName:  Interface, PeerHardwareAddr: s.MAC, PeerNamespace: netlink.NsFd(s.Fd()),
	}
	if err := g.hub.nl.LinkAdd(pair); err != nil {
		return fmt.Errorf("add link: %w", err)
	}
	if s.port, err = g.hub.nl.LinkByName(name); err != nil {
		return fmt.Errorf("find port: %w", err)
	}
	if err := g.hub.nl.LinkSetUp(s.port); err != nil {
		return fmt.Errorf("set port up: %w", err)
	}
	return s.configure()
}

func (s *Station) configure() error {
	// The link-local address is given by hand below, without duplicate detection.
	err := s.Do(func() error {
		err := os.WriteFile("/proc/sys/net/ipv6/conf/"+Interface+"/addr_gen_mode", []byte("1"), 0)
		if err != nil {
			return fmt.Errorf("switch off automatic link-local address: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	eth, err := s.Netlink.LinkByName(Interface)
	if err != nil {
		return fmt.Errorf("find interface: %w", err)
	}
	if err := s.Netlink.LinkSetUp(eth); err != nil {
		return fmt.Errorf("set interface up: %w", err)
	}
	local := s.Six.As16()
	copy(local[:4], []byte{0xfe, 0x80, 0, 0})
	for _, p := range []netip.Prefix{netip.PrefixFrom(s.Four, 24), netip.PrefixFrom(netip.AddrFrom16(local), 64), netip.PrefixFrom(s.Six, 64)} {
		a := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
		if p.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		if err := s.Netlink.AddrAdd(eth, a); err != nil {
			return fmt.Errorf("add %s: %w", p, err)
		}
	}
	return nil
}

// Station returns station i, counted from 1.
func (g *Segment) Station(i int) *Station { return g.stations[i-1] }

// Hub is where the bridge is, for rules that drop frames on their way; the port of
// station i is called porti there.
func (g *Segment) Hub() *space.Space { return g.hub.space }

// Close gives everything back to the kernel.
func (g *Segment) Close() error {
	var all []error
	for _, s := range g.stations {
		s.Netlink.Close()
		all = append(all, s.Space.Close())
	}
	if g.hub != nil {
		g.hub.nl.Close()
		all = append(all, g.hub.space.Close())
	}
	return errors.Join(all...)
}

// The states of a bridge's port, linux/if_bridge.h.
const (
	portDisabled   = 0 // not blocking, which a bridge without STP ends by itself
	portForwarding = 3
)

// Silence lets no frame of the station through any more, and none to it, while
// its carrier stays. The bridge remembers where its hardware addresses are, as a
// switch does: taken off the bridge, it would have frames to a hardware address
// that several stations are ready to have flooded to all of them.
func (s *Station) Silence() error { return s.setPort(portDisabled) }

// Rejoin ends Silence.
func (s *Station) Rejoin() error { return s.setPort(portForwarding) }

func (s *Station) setPort(state byte) error {
	return s.segment.hub.space.Do(func() error {
		req := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
		msg := nl.NewIfInfomsg(unix.AF_BRIDGE)
		msg.Index = int32(s.port.Attrs().Index)
		req.AddData(msg)
		port := nl.NewRtAttr(unix.IFLA_PROTINFO|unix.NLA_F_NESTED, nil)
		port.AddRtAttr(nl.IFLA_BRPORT_STATE, []byte{state})
		req.AddData(port)
		if _, err := req.Execute(unix.NETLINK_ROUTE, 0); err != nil {
			return fmt.Errorf("set state of %s: %w", s.port.Attrs().Name, err)
		}
		return nil
	})
}

// Tap hears the frames of one kind that the station sends, at the switch's end of
// its cable: there they can be told from those of others, whatever hardware
// address they carry. Each read is one frame; closing ends it.
func (s *Station) Tap(etherType uint16) (*os.File, error) {
	var file *os.File
	err := s.segment.hub.space.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		file = os.NewFile(uintptr(fd), "tap")
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
			return errors.Join(err, file.Close())
		}
		// The bridge takes frames away before a socket for one kind would see them.
		only := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 12},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(etherType), Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: 0xffff},
			{Code: unix.BPF_RET | unix.BPF_K},
		}
		if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(only)), Filter: &only[0]}); err != nil {
			return errors.Join(err, file.Close())
		}
		at := &unix.SockaddrLinklayer{Protocol: unix.ETH_P_ALL>>8 | unix.ETH_P_ALL&0xff<<8, Ifindex: s.port.Attrs().Index}
		if err := unix.Bind(fd, at); err != nil {
			return errors.Join(err, file.Close())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("tap %s: %w", s.port.Attrs().Name, err)
	}
	return file, nil
}

// Unplug takes the carrier away.
func (s *Station) Unplug() error { return s.segment.hub.nl.LinkSetDown(s.port) }

// Plug ends Unplug, and returns when the bridge forwards.
func (s *Station) Plug() error {
	if err := s.segment.hub.nl.LinkSetUp(s.port); err != nil {
		return fmt.Errorf("set port up: %w", err)
	}
	return s.connected()
}

// connected waits until both ends have their carrier. The kernel tells the
// bridge of it from a work queue, up to a second later, and until then a
// station's frames go nowhere without a sign.
func (s *Station) connected() error {
	hub := s.segment.hub.nl
	deadline := time.Now().Add(10 * time.Second)
	for ; ; <-time.After(2 * time.Millisecond) {
		port, err := hub.LinkByName(s.port.Attrs().Name)
		if err != nil {
			return fmt.Errorf("find port: %w", err)
		}
		eth, err := s.Netlink.LinkByName(Interface)
		if err != nil {
			return fmt.Errorf("find interface: %w", err)
		}
		if port.Attrs().OperState == netlink.OperUp && eth.Attrs().OperState == netlink.OperUp {
			break
		}
		if time.Now().After(deadline) {
			return errors.New("no carrier within 10 s")
		}
	}
	// The state is written just before the bridge is told, both under the
	// kernel's lock of interfaces, and so is this change of nothing.
	return hub.LinkSetUp(s.port)
}

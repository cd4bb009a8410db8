package wire

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
)

// Config says where adverts are sent and heard.
type Config struct {
	Interface string
	Family    vrrp.Family
	// VRID is of the virtual router. Adverts of others are heard as well, and
	// refused ones are not told of.
	VRID uint8
	// Peers get each advert; none means the multicast group.
	Peers []netip.Addr
	// Through is the virtual interface that adverts to the group leave by, so
	// that switches learn where its hardware address is (RFC 9568 section 7.2);
	// "" means Interface. It may come and go.
	Through string
}

// Heard is an advert from the link.
type Heard struct {
	Advert vrrp.Advert
	Source netip.Addr
}

// most that waits for the owner; the oldest is dropped. An owner that does not
// come for so many has other troubles.
const most = 256

// Socket sends and hears. All methods are safe for concurrent use.
type Socket struct {
	config Config
	index  int
	file   *os.File
	raw    syscall.RawConn
	out    *outlet // nil: raw

	mu       sync.Mutex
	heard    []Heard
	rejected map[vrrp.Reason]uint64
	odd      []Odd
	buffer   [2048]byte
	oob      [256]byte
}

// Open opens a socket on the interface.
func Open(c Config) (*Socket, error) {
	s := &Socket{config: c, rejected: map[vrrp.Reason]uint64{}}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("open VRRP socket on %s: %w", c.Interface, err)
	}
	return s, nil
}

func (s *Socket) open() error {
	iface, err := net.InterfaceByName(s.config.Interface)
	if err != nil {
		return err
	}
	s.index = iface.Index
	s.file, s.raw, err = s.socket(s.set4, s.set6)
	if err == nil && s.config.Through != "" && len(s.config.Peers) == 0 {
		if s.out, err = s.outlet(); err != nil {
			_ = s.file.Close()
		}
	}
	return err
}

// socket opens a raw socket of the family, with options.
func (s *Socket) socket(set4, set6 func(fd int) error) (*os.File, syscall.RawConn, error) {
	domain, set := unix.AF_INET, set4
	if s.config.Family == vrrp.IPv6 {
		domain, set = unix.AF_INET6, set6
	}
	fd, err := unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, vrrp.Protocol)
	if errors.Is(err, unix.EPERM) {
		return nil, nil, fmt.Errorf("%w; the agent needs CAP_NET_RAW", err)
	}
	if err != nil {
		return nil, nil, err
	}
	if err := set(fd); err != nil {
		_ = unix.Close(fd)
		return nil, nil, err
	}
	file := os.NewFile(uintptr(fd), "VRRP socket")
	raw, err := file.SyscallConn()
	return file, raw, err
}

type option struct {
	name                 string
	level, option, value int
}

func bind(fd int, iface string) error {
	if err := unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, iface); err != nil {
		return fmt.Errorf("bind to interface %s: %w", iface, err)
	}
	return nil
}

func apply(fd int, options []option) error {
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.option, o.value); err != nil {
			return fmt.Errorf("set %s: %w", o.name, err)
		}
	}
	return nil
}

// priority is TC_PRIO_CONTROL: ahead of other traffic in the usual qdiscs.
const priority = 7

// options4 and options6 are what every packet needs.
var (
	options4 = []option{
		{"TTL", unix.IPPROTO_IP, unix.IP_TTL, vrrp.TTL},
		{"multicast TTL", unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, vrrp.TTL},
		{"multicast loop", unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP, 0},
		{"multicast of others", unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0},
		// Network control (RFC 4594): what keepalived sends, too.
		{"TOS", unix.IPPROTO_IP, unix.IP_TOS, 0xc0},
		{"priority", unix.SOL_SOCKET, unix.SO_PRIORITY, priority},
	}
	options6 = []option{
		{"hop limit", unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, vrrp.TTL},
		{"multicast hop limit", unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, vrrp.TTL},
		{"multicast loop", unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP, 0},
		{"traffic class", unix.IPPROTO_IPV6, unix.IPV6_TCLASS, 0xc0},
		{"priority", unix.SOL_SOCKET, unix.SO_PRIORITY, priority},
	}
)

func (s *Socket) set4(fd int) error {
	if err := errors.Join(bind(fd, s.config.Interface), apply(fd, options4)); err != nil {
		return err
	}
	mreq := &unix.IPMreqn{Multiaddr: vrrp.Multicast4.As4(), Ifindex: int32(s.index)}
	if err := unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, mreq); err != nil {
		return fmt.Errorf("set multicast interface: %w", err)
	}
	if len(s.config.Peers) > 0 {
		return nil
	}
	if err := unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, mreq); err != nil {
		return fmt.Errorf("join %s: %w", vrrp.Multicast4, err)
	}
	return nil
}

func (s *Socket) set6(fd int) error {
	err := errors.Join(bind(fd, s.config.Interface), apply(fd, options6), apply(fd, []option{
		{"multicast interface", unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, s.index},
		{"receive hop limit", unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1},
		{"receive destination", unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1},
	}))
	if err != nil || len(s.config.Peers) > 0 {
		return err
	}
	mreq := &unix.IPv6Mreq{Multiaddr: vrrp.Multicast6.As16(), Interface: uint32(s.index)}
	if err := unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, mreq); err != nil {
		return fmt.Errorf("join %s: %w", vrrp.Multicast6, err)
	}
	return nil
}

// Close ends Run.
func (s *Socket) Close() error {
	if s.out != nil {
		return errors.Join(s.out.file.Close(), s.file.Close())
	}
	return s.file.Close()
}

// twice is below which interval each advert is sent twice. See the package comment.
const twice = time.Second

// Send sends an advert from src to the group or to every peer. It does not wait:
// an advert that the interface cannot take now is worth nothing later.
func (s *Socket) Send(a vrrp.Advert, src netip.Addr) error {
	err := s.sendOnce(a, src)
	if err == nil && a.Interval < twice {
		err = s.sendOnce(a, src)
	}
	return err
}

func (s *Socket) sendOnce(a vrrp.Advert, src netip.Addr) error {
	to := s.config.Peers
	if len(to) == 0 {
		to = []netip.Addr{s.config.Family.Multicast()}
	}
	var first error
	for _, dst := range to {
		if err := s.send(a.Append(nil, src, dst), src, dst); err != nil && first == nil {
			first = fmt.Errorf("send advert from %s to %s on %s: %w", src, dst, s.config.Interface, err)
		}
	}
	return first
}

func (s *Socket) send(b []byte, src, dst netip.Addr) error {
	if s.out != nil {
		return s.out.send(b, src, dst)
	}
	return send(s.raw, s.index, b, src, dst)
}

func send(raw syscall.RawConn, index int, b []byte, src, dst netip.Addr) error {
	oob, to := envelope(index, src, dst)
	var err error
	outer := raw.Control(func(fd uintptr) { _, err = unix.SendmsgN(int(fd), b, oob, to, unix.MSG_DONTWAIT) })
	return errors.Join(outer, err)
}

// envelope sets the source: the checksum covers it, and the kernel's choice may
// be another.
func envelope(index int, src, dst netip.Addr) ([]byte, unix.Sockaddr) {
	if dst.Is4() {
		return unix.PktInfo4(&unix.Inet4Pktinfo{Ifindex: int32(index), Spec_dst: src.As4()}), &unix.SockaddrInet4{Addr: dst.As4()}
	}
	to := &unix.SockaddrInet6{Addr: dst.As16()}
	if dst.IsLinkLocalUnicast() || dst.IsLinkLocalMulticast() {
		to.ZoneId = uint32(index)
	}
	return unix.PktInfo6(&unix.Inet6Pktinfo{Ifindex: uint32(index), Addr: src.As16()}), to
}

// Run hears until Close, and calls wake after each batch. It returns nil then,
// or why it cannot go on, such as that the interface has been removed.
func (s *Socket) Run(wake func()) error {
	for {
		var err error
		outer := s.raw.Read(func(uintptr) bool {
			err = s.Drain()
			return !errors.Is(err, unix.EAGAIN)
		})
		if outer != nil {
			return nil // closed
		}
		if err != nil {
			return fmt.Errorf("hear adverts on %s: %w", s.config.Interface, err)
		}
		wake()
	}
}

// Drain reads one batch of what waits; EAGAIN says that nothing was there.
func (s *Socket) Drain() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	read := 0
	outer := s.raw.Control(func(fd uintptr) {
		for ; read < most && err == nil; read++ {
			err = s.read(int(fd))
		}
	})
	switch {
	case outer != nil:
		return outer
	case errors.Is(err, unix.EAGAIN) && read > 1:
		return nil
	case errors.Is(err, unix.ENETDOWN):
		return nil // said once when the interface goes down
	}
	return err
}

// read takes one packet. The lock is held.
func (s *Socket) read(fd int) error {
	n, oobn, _, from, err := unix.Recvmsg(fd, s.buffer[:], s.oob[:], unix.MSG_DONTWAIT)
	if err != nil {
		return err
	}
	p, err := s.unwrap(s.buffer[:n], s.oob[:oobn], from)
	if err == nil {
		var h Heard
		if h, err = s.judge(p); err == nil {
			if len(s.heard) == most {
				s.heard = s.heard[1:]
			}
			s.heard = append(s.heard, h)
			return nil
		}
	}
	s.rejected[vrrp.ReasonOf(err)]++
	if len(p.payload) > 1 && p.payload[1] == s.config.VRID && len(s.odd) < mostOdd {
		s.odd = append(s.odd, Odd{Reason: vrrp.ReasonOf(err), Source: p.src, Err: err})
	}
	return nil
}

// Odd is an advert of our virtual router that was refused.
type Odd struct {
	Reason vrrp.Reason
	Source netip.Addr
	Err    error
}

// mostOdd bounds what is kept until Odd is called.
const mostOdd = 16

// Odd returns what was refused of our virtual router since the last call, at most
// mostOdd of it.
func (s *Socket) Odd() []Odd {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.odd
	s.odd = nil
	return all
}

// Take returns what was heard since the last call, oldest first.
func (s *Socket) Take() []Heard {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.heard
	s.heard = nil
	return all
}

// Rejected counts what was not taken for an advert, by reason.
func (s *Socket) Rejected() map[vrrp.Reason]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[vrrp.Reason]uint64, len(s.rejected))
	for r, n := range s.rejected {
		all[r] = n
	}
	return all
}

func (s *Socket) isPeer(a netip.Addr) bool {
	return len(s.config.Peers) == 0 || slices.Contains(s.config.Peers, a)
}

package announce

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// socket is a packet socket on one interface for one ether type.
type socket struct {
	file *os.File // in the runtime's poller, so that closing it ends a read
	raw  syscall.RawConn
	// group members, to leave again; guarded by the Speaker.
	groups map[MAC]bool
	index  int
}

// openSocket opens a socket that passes nothing yet. It is bound only once the
// filter is in place, so that nothing gets in before.
//
// It leaves the qdisc layer in the way of what it sends (no
// PACKET_QDISC_BYPASS): package gate stands there.
func openSocket(index int, etherType uint16) (*socket, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if errors.Is(err, unix.EPERM) {
		return nil, fmt.Errorf("open packet socket: %w; the agent needs CAP_NET_RAW", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open packet socket: %w", err)
	}
	s := &socket{file: os.NewFile(uintptr(fd), "packet socket"), groups: map[MAC]bool{}, index: index}
	if s.raw, err = s.file.SyscallConn(); err != nil {
		s.file.Close()
		return nil, fmt.Errorf("open packet socket: %w", err)
	}
	err = s.control(func(fd int) error {
		if err := attach(fd, []bpf.Instruction{bpf.RetConstant{}}); err != nil {
			return err
		}
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: etherType>>8 | etherType<<8, Ifindex: index}); err != nil {
			return fmt.Errorf("bind packet socket: %w", err)
		}
		return nil
	})
	if err != nil {
		s.file.Close()
		return nil, err
	}
	return s, nil
}

// control runs f on the descriptor, which stays open meanwhile.
func (s *socket) control(f func(fd int) error) error {
	var err error
	if outer := s.raw.Control(func(fd uintptr) { err = f(int(fd)) }); outer != nil {
		return outer
	}
	return err
}

func (s *socket) filter(program []bpf.Instruction) error {
	return s.control(func(fd int) error { return attach(fd, program) })
}

// join makes the interface pass the frames of these groups and no others that
// this socket has asked for.
func (s *socket) join(groups map[MAC]bool) error {
	return s.control(func(fd int) error {
		for g := range groups {
			if s.groups[g] {
				continue
			}
			if err := unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, s.member(g)); err != nil {
				return fmt.Errorf("join group %s: %w", g, err)
			}
			s.groups[g] = true
		}
		for g := range s.groups {
			if groups[g] {
				continue
			}
			// The interface may be gone and the membership with it.
			_ = unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_DROP_MEMBERSHIP, s.member(g))
			delete(s.groups, g)
		}
		return nil
	})
}

func (s *socket) member(g MAC) *unix.PacketMreq {
	m := &unix.PacketMreq{Ifindex: int32(s.index), Type: unix.PACKET_MR_MULTICAST, Alen: uint16(len(g))}
	copy(m.Address[:], g[:])
	return m
}

// station returns the present hardware address of the interface.
func (s *socket) station() (MAC, error) {
	var mac MAC
	err := s.control(func(fd int) error {
		sa, err := unix.Getsockname(fd)
		if err != nil {
			return fmt.Errorf("read hardware address: %w", err)
		}
		ll, ok := sa.(*unix.SockaddrLinklayer)
		if !ok || ll.Ifindex != s.index {
			return ErrGone // the kernel unbinds from a removed interface
		}
		mac, err = MACFrom(ll.Addr[:min(int(ll.Halen), len(ll.Addr))])
		return err
	})
	return mac, err
}

// send never waits: an announcement that the interface cannot take now is worth
// nothing later.
func (s *socket) send(frame []byte) error {
	return s.control(func(fd int) error {
		if _, err := unix.SendmsgN(fd, frame, nil, nil, unix.MSG_DONTWAIT); err != nil {
			if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) {
				return ErrGone
			}
			return err
		}
		return nil
	})
}

// receive reads one frame that another station sent to this one, to a group or
// to all. It returns 0 for others and for what an interface that has gone down
// reports once.
func (s *socket) receive(buffer []byte) (int, error) {
	var n int
	var from unix.Sockaddr
	var err error
	outer := s.raw.Read(func(fd uintptr) bool {
		n, from, err = unix.Recvfrom(int(fd), buffer, unix.MSG_DONTWAIT)
		return err != unix.EAGAIN && err != unix.EINTR
	})
	switch {
	case outer != nil:
		return 0, outer
	case err == unix.ENETDOWN:
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read packet socket: %w", err)
	}
	if ll, ok := from.(*unix.SockaddrLinklayer); !ok || ll.Pkttype == unix.PACKET_OTHERHOST || ll.Pkttype == unix.PACKET_OUTGOING {
		return 0, nil
	}
	return n, nil
}

package bfd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"golang.org/x/sys/unix"
)

// The source ports of RFC 5881 section 4. One port serves one session for as
// long as it lasts, and no other session on the machine.
const (
	firstPort = 49152
	lastPort  = 65535
)

// inControl is the class of service of routing protocols (CS6), so that a full
// link drops other packets first.
const inControl = 0xc0

// sender is the socket that one session sends with. It is opened when it is
// first needed and anew after a failure, because the interface or the local
// address may not be there yet, or may have been made anew.
type sender struct {
	peer, local netip.Addr
	device      string
	random      *rand.Rand
	taken       func(port int) bool // by another session

	fd      int // -1: not open
	port    int // 0: none chosen yet
	ifindex int // of device while open
	buffer  []byte
}

// send sends a packet. After an error the next packet tries with a new socket.
func (s *sender) send(p Packet) error {
	if s.fd < 0 {
		if err := s.open(); err != nil {
			return err
		}
	}
	s.buffer = p.Append(s.buffer[:0])
	err := unix.Sendto(s.fd, s.buffer, unix.MSG_DONTWAIT, sockaddr(s.peer, Port, s.ifindex))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EPERM):
		// A full queue or a firewall: nothing that another socket would mend.
	default:
		s.close()
	}
	return fmt.Errorf("send to %v: %w", s.peer, err)
}

func (s *sender) open() error {
	fd, err := unix.Socket(family(s.peer), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	if err := s.prepare(fd); err != nil {
		_ = unix.Close(fd)
		return err
	}
	s.fd = fd
	return nil
}

func (s *sender) prepare(fd int) error {
	// Nobody reads this socket; what strangers send to it must not cost memory.
	options := []option{{unix.SOL_SOCKET, unix.SO_RCVBUF, 1}}
	if s.peer.Is4() {
		options = append(options, option{unix.IPPROTO_IP, unix.IP_TTL, TTL}, option{unix.IPPROTO_IP, unix.IP_TOS, inControl})
	} else {
		options = append(options, option{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1},
			option{unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, TTL}, option{unix.IPPROTO_IPV6, unix.IPV6_TCLASS, inControl})
	}
	if err := set(fd, options); err != nil {
		return err
	}
	s.ifindex = 0
	if s.device != "" {
		if err := unix.BindToDevice(fd, s.device); err != nil {
			return fmt.Errorf("bind to interface %s: %w", s.device, err)
		}
		s.ifindex = index(fd, s.device)
	}
	return s.bind(fd)
}

// bind keeps the port of before where it can: the session has not changed.
func (s *sender) bind(fd int) error {
	local := s.local
	if !local.IsValid() {
		local = netip.IPv4Unspecified()
		if !s.peer.Is4() {
			local = netip.IPv6Unspecified()
		}
	}
	for range 100 {
		if s.port == 0 || s.taken(s.port) {
			s.port = firstPort + s.random.IntN(lastPort-firstPort+1)
			if s.taken(s.port) {
				continue
			}
		}
		err := unix.Bind(fd, sockaddr(local, s.port, s.ifindex))
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EADDRINUSE):
			s.port = 0
		default:
			return fmt.Errorf("bind to %v: %w", local, err)
		}
	}
	return fmt.Errorf("bind to %v: a hundred ports between %d and %d are in use", local, firstPort, lastPort)
}

func (s *sender) close() {
	if s.fd >= 0 {
		_ = unix.Close(s.fd)
		s.fd = -1
	}
}

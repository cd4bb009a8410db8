package bfd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// arrival is a datagram with what the kernel says of it.
type arrival struct {
	from, to netip.Addr
	ifindex  int
	ttl      int       // -1: not told
	stamp    time.Time // by the wall clock; zero: not told
	payload  []byte    // until the next read
}

// listener is a socket on Port that is read without waiting.
type listener struct {
	fd      int
	payload [128]byte // five times what a packet has; the rest is cut off
	control [256]byte
}

// listen opens the port on address, which may be unspecified.
func listen(address netip.Addr) (*listener, error) {
	fd, err := unix.Socket(family(address), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open socket: %w", err)
	}
	l := &listener{fd: fd}
	if err := l.prepare(address); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return l, nil
}

func (l *listener) prepare(address netip.Addr) error {
	options := []option{{unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1}}
	if address.Is4() {
		options = append(options, option{unix.IPPROTO_IP, unix.IP_RECVTTL, 1}, option{unix.IPPROTO_IP, unix.IP_PKTINFO, 1})
	} else {
		options = append(options, option{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1},
			option{unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1}, option{unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1})
	}
	if err := set(l.fd, options); err != nil {
		return err
	}
	err := unix.Bind(l.fd, sockaddr(address, Port, 0))
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("listen on %v: another program, such as FRR's bfdd, BIRD or keepalived, speaks BFD there; stop it, or name the addresses that are left to this one", netip.AddrPortFrom(address, Port))
	}
	if err != nil {
		return fmt.Errorf("listen on %v: %w", netip.AddrPortFrom(address, Port), err)
	}
	return nil
}

// read returns the next datagram; false: the socket is empty.
func (l *listener) read() (arrival, bool) {
	for {
		n, nc, _, from, err := unix.Recvmsg(l.fd, l.payload[:], l.control[:], unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return arrival{}, false
		}
		a := arrival{ttl: -1, payload: l.payload[:n]}
		switch from := from.(type) {
		case *unix.SockaddrInet4:
			a.from = netip.AddrFrom4(from.Addr)
		case *unix.SockaddrInet6:
			a.from = netip.AddrFrom16(from.Addr)
		}
		a.describe(l.control[:nc])
		return a, true
	}
}

// describe reads the control messages.
func (a *arrival) describe(control []byte) {
	for len(control) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return
		}
		control = rest
		switch {
		case header.Level == unix.SOL_SOCKET && header.Type == unix.SO_TIMESTAMPNS && len(data) >= int(unsafe.Sizeof(unix.Timespec{})):
			ts := *(*unix.Timespec)(unsafe.Pointer(&data[0]))
			a.stamp = time.Unix(ts.Unix())
		case header.Level == unix.IPPROTO_IP && header.Type == unix.IP_TTL && len(data) >= 4,
			header.Level == unix.IPPROTO_IPV6 && header.Type == unix.IPV6_HOPLIMIT && len(data) >= 4:
			a.ttl = int(binary.NativeEndian.Uint32(data))
		case header.Level == unix.IPPROTO_IP && header.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
			a.ifindex = int(binary.NativeEndian.Uint32(data))
			a.to = netip.AddrFrom4([4]byte(data[8:12]))
		case header.Level == unix.IPPROTO_IPV6 && header.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
			a.to = netip.AddrFrom16([16]byte(data[:16]))
			a.ifindex = int(binary.NativeEndian.Uint32(data[16:]))
		}
	}
}

func (l *listener) close() { _ = unix.Close(l.fd) }

// index is the number of a network interface in the namespace of fd; 0: there
// is none of that name.
func index(fd int, name string) int {
	request, err := unix.NewIfreq(name)
	if err != nil || unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, request) != nil {
		return 0
	}
	return int(request.Uint32())
}

type option struct{ level, name, value int }

func set(fd int, options []option) error {
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return os.NewSyscallError(fmt.Sprintf("setsockopt %d/%d", o.level, o.name), err)
		}
	}
	return nil
}

func family(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func sockaddr(a netip.Addr, port, zone int) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Port: port, Addr: a.As4()}
	}
	sa := &unix.SockaddrInet6{Port: port, Addr: a.As16()}
	if a.IsLinkLocalUnicast() {
		sa.ZoneId = uint32(zone)
	}
	return sa
}

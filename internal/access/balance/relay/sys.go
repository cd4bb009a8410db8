package relay

import (
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below go to the kernel without telling the Go scheduler: all act
// on non-blocking descriptors and return at once, and the scheduler's
// bookkeeping (and the hand-over of the processor to another thread that it
// allows) would cost more than the calls.

func sysRead(fd int, p []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}

// sysSend is write(2) without SIGPIPE.
func sysSend(fd int, p []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

func sysSplice(from, to, n, flags int) (int, unix.Errno) {
	moved, _, errno := unix.RawSyscall6(unix.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0, uintptr(n), uintptr(flags))
	return int(moved), errno
}

func sysClose(fd int) {
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
}

func sysShutdown(fd int) {
	_, _, _ = unix.RawSyscall(unix.SYS_SHUTDOWN, uintptr(fd), unix.SHUT_WR, 0)
}

func sysAccept(fd int, from *sockaddr) (int, unix.Errno) {
	from.n = uint32(unsafe.Sizeof(from.raw))
	n, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(&from.raw)), uintptr(unsafe.Pointer(&from.n)),
		unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	return int(n), errno
}

func sysSocket(family int) (int, unix.Errno) {
	fd, _, errno := unix.RawSyscall(unix.SYS_SOCKET, uintptr(family), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	return int(fd), errno
}

func sysConnect(fd int, to *sockaddr) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&to.raw)), uintptr(to.n))
	return errno
}

func sysBind(fd int, to *sockaddr) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&to.raw)), uintptr(to.n))
	return errno
}

func sysSetInt(fd, level, name, value int) unix.Errno {
	v := int32(value)
	_, _, errno := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name), uintptr(unsafe.Pointer(&v)), 4, 0)
	return errno
}

// sysSetLinger makes the next close send RST and forget what is unsent.
func sysSetLinger(fd int) {
	v := unix.Linger{Onoff: 1}
	_, _, _ = unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_LINGER, uintptr(unsafe.Pointer(&v)), unsafe.Sizeof(v), 0)
}

// sysSocketError takes the pending error of a socket (SO_ERROR).
func sysSocketError(fd int) unix.Errno {
	var v int32
	n := uint32(4)
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_ERROR, uintptr(unsafe.Pointer(&v)), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return errno
	}
	return unix.Errno(v)
}

func sysTCPInfo(fd int, info *unix.TCPInfo) unix.Errno {
	n := uint32(unsafe.Sizeof(*info))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_INFO, uintptr(unsafe.Pointer(info)), uintptr(unsafe.Pointer(&n)), 0)
	return errno
}

func sysSockName(fd int, a *sockaddr) unix.Errno {
	a.n = uint32(unsafe.Sizeof(a.raw))
	_, _, errno := unix.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&a.raw)), uintptr(unsafe.Pointer(&a.n)))
	return errno
}

func sysEpollCtl(epfd, op, fd int, events uint32, slot, generation uint32) unix.Errno {
	ev := unix.EpollEvent{Events: events, Fd: int32(slot), Pad: int32(generation)}
	_, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(epfd), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(&ev)), 0, 0)
	return errno
}

// sysEpollPoll asks for events without waiting.
func sysEpollPoll(epfd int, events []unix.EpollEvent) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd), uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
	return int(n), errno
}

// sockaddr is a socket address as the kernel writes it.
type sockaddr struct {
	raw unix.RawSockaddrAny
	n   uint32
}

// addrPort returns the IP address, IPv4 in its short form, or the zero value
// for a unix socket.
func (a *sockaddr) addrPort() netip.AddrPort {
	switch a.raw.Addr.Family {
	case unix.AF_INET:
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(&a.raw))
		return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), ntohs(in.Port))
	case unix.AF_INET6:
		in := (*unix.RawSockaddrInet6)(unsafe.Pointer(&a.raw))
		return netip.AddrPortFrom(netip.AddrFrom16(in.Addr).Unmap(), ntohs(in.Port))
	}
	return netip.AddrPort{}
}

// inetAddr is the reverse of addrPort; zone is the number of the interface of
// a link-local address.
func inetAddr(ap netip.AddrPort, zone uint32) sockaddr {
	var a sockaddr
	if ap.Addr().Is4() {
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(&a.raw))
		*in = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: ntohs(ap.Port()), Addr: ap.Addr().As4()}
		a.n = unix.SizeofSockaddrInet4
		return a
	}
	in := (*unix.RawSockaddrInet6)(unsafe.Pointer(&a.raw))
	*in = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: ntohs(ap.Port()), Addr: ap.Addr().As16(), Scope_id: zone}
	a.n = unix.SizeofSockaddrInet6
	return a
}

// unixAddr takes a path, or @name in the abstract namespace.
func unixAddr(path string) (sockaddr, bool) {
	var a sockaddr
	un := (*unix.RawSockaddrUnix)(unsafe.Pointer(&a.raw))
	if path == "" || len(path) >= len(un.Path) {
		return a, false
	}
	un.Family = unix.AF_UNIX
	for i := range len(path) {
		un.Path[i] = int8(path[i])
	}
	a.n = uint32(2 + len(path) + 1)
	if path[0] == '@' {
		un.Path[0] = 0
		a.n--
	}
	return a, true
}

// ntohs swaps the bytes of a port when this machine's order is not the
// network's.
func ntohs(v uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(&v))
	return uint16(b[0])<<8 | uint16(b[1])
}

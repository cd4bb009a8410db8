package relay

import (
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// connect begins a connection. local says that the error is this machine's:
// no descriptor, port, memory or source address. The errno is EINPROGRESS as a
// rule, and 0 for a unix target; for other errors that are not local, the
// descriptor is still open.
func (l *loop) connect(t *Target, set *settings) (fd int, local bool, errno unix.Errno) {
	family := int(t.addr.raw.Addr.Family)
	if fd, errno = sysSocket(family); errno != 0 {
		return -1, true, errno
	}
	if family != unix.AF_UNIX {
		// The rest can wait until the connection has shown that it lasts.
		_ = sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		if errno = bindSource(fd, family, set.SourceAddress); errno != 0 {
			sysClose(fd)
			return -1, true, errno
		}
	}
	errno = sysConnect(fd, &t.addr)
	switch errno {
	case unix.EADDRNOTAVAIL, unix.ENOBUFS, unix.ENOMEM, unix.EPERM, unix.EACCES:
		sysClose(fd)
		return -1, true, errno
	}
	return fd, false, errno
}

// bindSource leaves the choice of the port to connect (IP_BIND_ADDRESS_NO_PORT),
// which can then use one port for several targets.
func bindSource(fd, family int, source netip.Addr) unix.Errno {
	if !source.IsValid() || source.Is4() != (family == unix.AF_INET) {
		return 0
	}
	if errno := sysSetInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); errno != 0 {
		return errno
	}
	a := inetAddr(netip.AddrPortFrom(source, 0), 0)
	return sysBind(fd, &a)
}

// tune sets what both sides' TCP sockets have in common. A listening socket
// passes all of it on to those accepted from it, which saves six calls per
// client; a target's socket is tuned once it has lasted for lasting.
func (s *settings) tune(fd int) {
	_ = sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	_ = sysSetInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	_ = sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, seconds(s.KeepAlive.Idle))
	_ = sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, seconds(s.KeepAlive.Interval))
	_ = sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, s.KeepAlive.Count)
	_ = sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(max(s.UserTimeout, 0)/time.Millisecond))
}

func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// isInet says whether a socket is one of TCP.
func isInet(fd int) bool {
	var a sockaddr
	if sysSockName(fd, &a) != 0 {
		return false
	}
	family := (*unix.RawSockaddr)(unsafe.Pointer(&a.raw)).Family
	return family == unix.AF_INET || family == unix.AF_INET6
}

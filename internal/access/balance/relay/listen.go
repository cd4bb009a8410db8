package relay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// backlog is how many connections the kernel may hold for us; it cuts the
// number to net.core.somaxconn.
const backlog = 4096

// Listen opens a listening socket for Serve: "127.0.0.1:7445", "[::1]:7445",
// ":7445" (all addresses, both families), "unix:/run/holdfast.sock" or
// "unix:@name". A unix path where nobody listens any more is replaced. With
// freebind the address need not be on this machine yet (IP_FREEBIND, ip(7)):
// a virtual address that lives elsewhere.
func Listen(address string, freebind bool) (*os.File, error) {
	var fd int
	var err error
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		fd, err = listenUnix(path)
	} else {
		fd, err = listenInet(address, freebind)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, explain(err))
	}
	// Still blocking here: so the Go runtime does not watch it beside us.
	return os.NewFile(uintptr(fd), "listener "+address), nil
}

// explain adds the remedy to the errors that a person can do something about.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("%w; another process listens there: stop it or choose another port", err)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("%w; the address is not on this machine: correct it or allow a free bind", err)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w; use a port from 1024 up, or give the process CAP_NET_BIND_SERVICE", err)
	}
	return err
}

func listenInet(address string, freebind bool) (int, error) {
	ap, anywhere, err := parseListen(address)
	if err != nil {
		return -1, err
	}
	fd, err := bindInet(ap, anywhere, freebind)
	if anywhere && (errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL)) {
		// A machine without IPv6.
		return bindInet(netip.AddrPortFrom(netip.IPv4Unspecified(), ap.Port()), false, freebind)
	}
	return fd, err
}

// parseListen returns the address to bind; anywhere says that none was given.
func parseListen(address string) (ap netip.AddrPort, anywhere bool, err error) {
	if strings.HasPrefix(address, ":") {
		address, anywhere = "[::]"+address, true
	}
	if ap, err = netip.ParseAddrPort(address); err != nil {
		return ap, false, errors.New("not an address with a port; use 127.0.0.1:7445, [::1]:7445, :7445 or unix:/path")
	}
	return ap, anywhere, nil
}

func bindInet(ap netip.AddrPort, both, freebind bool) (int, error) {
	zone, err := zoneIndex(ap.Addr().Zone())
	if err != nil {
		return -1, err
	}
	bare := ap.Addr().WithZone("")
	a := inetAddr(netip.AddrPortFrom(bare, ap.Port()), zone)
	fd, errno := sysSocket(int(a.raw.Addr.Family))
	if errno != 0 {
		return -1, errno
	}
	options := [][3]int{{unix.SOL_SOCKET, unix.SO_REUSEADDR, 1}}
	switch {
	case bare.Is4() && freebind:
		options = append(options, [3]int{unix.IPPROTO_IP, unix.IP_FREEBIND, 1})
	case !bare.Is4():
		only := 1
		if both || bare.IsUnspecified() {
			only = 0
		}
		options = append(options, [3]int{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, only})
		if freebind {
			options = append(options, [3]int{unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1})
		}
	}
	for _, o := range options {
		if errno := sysSetInt(fd, o[0], o[1], o[2]); errno != 0 {
			sysClose(fd)
			return -1, errno
		}
	}
	return bindAndListen(fd, &a)
}

func bindAndListen(fd int, a *sockaddr) (int, error) {
	if errno := sysBind(fd, a); errno != 0 {
		sysClose(fd)
		return -1, errno
	}
	if err := unix.Listen(fd, backlog); err != nil {
		sysClose(fd)
		return -1, err
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		sysClose(fd)
		return -1, err
	}
	return fd, nil
}

func listenUnix(path string) (int, error) {
	a, ok := unixAddr(path)
	if !ok {
		return -1, fmt.Errorf("path is empty or longer than 107 bytes; use a shorter one")
	}
	removeStale(path)
	fd, errno := sysSocket(unix.AF_UNIX)
	if errno != 0 {
		return -1, errno
	}
	return bindAndListen(fd, &a)
}

// removeStale removes a socket that refuses connections: its process is gone.
func removeStale(path string) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
		return
	}
	if errors.Is(err, unix.ECONNREFUSED) {
		os.Remove(path)
	}
}

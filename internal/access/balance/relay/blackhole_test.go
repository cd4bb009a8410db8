package relay

import (
	"testing"

	"golang.org/x/sys/unix"
)

// blackhole is a listening socket with a full backlog: SYNs to it are dropped.
func blackhole(t *testing.T) *Target {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sysClose(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	var a sockaddr
	sysSockName(fd, &a)
	for range 3 {
		c, errno := sysSocket(unix.AF_INET)
		if errno != 0 {
			t.Fatal(errno)
		}
		t.Cleanup(func() { sysClose(c) })
		_ = sysConnect(c, &a)
	}
	return target(t, a.addrPort().String())
}

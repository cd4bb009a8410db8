package wire

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// outlet sends through a virtual interface, from an address that is not its own.
// The interface may be made anew at any time, so it is bound by name and again
// when the one that it was bound to is gone.
type outlet struct {
	name string
	file *os.File
	raw  syscall.RawConn

	mu    sync.Mutex
	bound bool
}

func (s *Socket) outlet() (*outlet, error) {
	o := &outlet{name: s.config.Through}
	var err error
	// The source is an address of another interface, which IPv4 takes as it is.
	o.file, o.raw, err = s.socket(
		func(fd int) error { return errors.Join(deaf(fd), apply(fd, options4)) },
		func(fd int) error {
			return errors.Join(deaf(fd), apply(fd, options6), apply(fd, []option{
				{"free source", unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1},
			}))
		},
	)
	return o, err
}

// deaf has a socket that nobody reads keep nothing.
func deaf(fd int) error {
	none := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &none[0]}); err != nil {
		return fmt.Errorf("attach filter: %w", err)
	}
	return nil
}

func (o *outlet) send(b []byte, src, dst netip.Addr) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bound {
		if err := send(o.raw, 0, b, src, dst); !gone(err) {
			return err
		}
	}
	if err := o.bind(); err != nil {
		return err
	}
	return send(o.raw, 0, b, src, dst)
}

// gone says that the interface that a socket was bound to is not there.
func gone(err error) bool {
	for _, e := range []error{unix.ENODEV, unix.ENXIO, unix.EADDRNOTAVAIL, unix.ENETUNREACH, unix.EINVAL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (o *outlet) bind() error {
	var err error
	outer := o.raw.Control(func(fd uintptr) { err = bind(int(fd), o.name) })
	err = errors.Join(outer, err)
	o.bound = err == nil
	return err
}

package disk

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Disk is the disk of some programs. Its zero value is one that is as fast as it
// is, and watches nobody yet.
type Disk struct {
	mu    sync.Mutex
	delay time.Duration
	// changed is closed when delay changes.
	changed chan struct{}
	calls   uint64
	files   []*os.File
	serving sync.WaitGroup
}

// Watch makes the calling thread one whose programs have this disk, from their
// start on. The thread must be locked, and never return to the scheduler; it must
// not sync files itself. Watch may be called for several threads.
func (d *Disk) Watch() error {
	f, err := install()
	if err != nil {
		return err
	}
	conn, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("watch a disk: %w", err)
	}
	d.mu.Lock()
	d.files = append(d.files, f)
	d.mu.Unlock()
	d.serving.Go(func() { d.serve(conn) })
	return nil
}

// Slow makes every call take at least delay; 0 makes the disk as fast as it is.
func (d *Disk) Slow(delay time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delay = delay
	if d.changed != nil {
		close(d.changed)
	}
	d.changed = make(chan struct{})
}

// Calls is how many syncs have been asked for so far.
func (d *Disk) Calls() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// Close ends the watch. Syncs of programs that still run fail from then on.
func (d *Disk) Close() {
	d.Slow(0)
	d.mu.Lock()
	files := d.files
	d.files = nil
	d.mu.Unlock()
	for _, f := range files {
		_ = f.Close()
	}
	d.serving.Wait()
}

// The kernel's structures (linux/seccomp.h).
type (
	notification struct {
		id       uint64
		pid      uint32
		flags    uint32
		number   int32
		arch     uint32
		pointer  uint64
		argument [6]uint64
	}
	answer struct {
		id       uint64
		value    int64
		errorNum int32
		flags    uint32
	}
)

// serve answers until the file is closed or no program is left.
func (d *Disk) serve(conn syscall.RawConn) {
	for {
		var n notification
		var end error
		err := conn.Read(func(fd uintptr) bool {
			ready := false
			ready, end = receive(int(fd), &n)
			return ready || end != nil
		})
		if err != nil || end != nil {
			return
		}
		d.mu.Lock()
		d.calls++
		d.mu.Unlock()
		d.serving.Go(func() { d.hold(conn, n.id, time.Now()) })
	}
}

// errLeft says that nobody is left who could call.
var errLeft = errors.New("no program is left")

// receive takes the next notification, if there is one. A request whose program
// was killed meanwhile counts as none.
func receive(fd int, n *notification) (bool, error) {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if _, err := unix.Poll(p, 0); err != nil {
		return false, ignoreInterrupt(err)
	}
	switch {
	case p[0].Revents&unix.POLLIN != 0:
	case p[0].Revents != 0:
		return false, errLeft
	default:
		return false, nil
	}
	*n = notification{} // the kernel wants zeros
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(n)))
	switch errno {
	case 0:
		return true, nil
	case unix.ENOENT, unix.EINTR, unix.EAGAIN:
		return false, nil
	}
	return false, errno
}

func ignoreInterrupt(err error) error {
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}

// hold lets one call go when its time has come.
func (d *Disk) hold(conn syscall.RawConn, id uint64, asked time.Time) {
	for {
		d.mu.Lock()
		left, changed := d.delay-time.Since(asked), d.changed
		d.mu.Unlock()
		if left <= 0 {
			break
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-changed:
		}
		timer.Stop()
	}
	a := answer{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	_ = conn.Control(func(fd uintptr) {
		// An error says that the program is gone, which is as good.
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&a)))
	})
}

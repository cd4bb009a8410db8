package space

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// ID names a network namespace for as long as the machine runs.
type ID struct {
	// Inode is the number in "net:[4026532201]". The kernel reuses it.
	Inode uint64 `json:"inode"`
	// Cookie is SO_NETNS_COOKIE, never reused before a reboot; 0 on kernels
	// before 5.14, which do not tell it.
	Cookie uint64 `json:"cookie"`
}

// Space is an anonymous network namespace with its loopback up to the caller,
// and the hostname that whatever runs in it sees.
type Space struct {
	file *os.File
	id   ID
	// uts holds the hostname; nil leaves that of the host.
	uts *os.File
}

// New makes an empty network namespace. It needs CAP_SYS_ADMIN.
func New() (*Space, error) { return NewNamed("") }

// NewNamed makes an empty network namespace with a hostname of its own; "" is
// as New.
func NewNamed(hostname string) (*Space, error) {
	s := &Space{}
	err := thread(func() error {
		if err := s.unshareNet(); err != nil || hostname == "" {
			return err
		}
		return s.unshareName(hostname)
	})
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Space) unshareNet() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare network namespace: %w", err)
	}
	var err error
	if s.file, err = os.Open("/proc/thread-self/ns/net"); err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	s.id, err = identify(int(s.file.Fd()))
	return err
}

func (s *Space) unshareName(hostname string) error {
	if err := rename(hostname); err != nil {
		return err
	}
	var err error
	if s.uts, err = os.Open("/proc/thread-self/ns/uts"); err != nil {
		return fmt.Errorf("open hostname namespace: %w", err)
	}
	return nil
}

// rename gives the calling thread a hostname of its own.
func rename(hostname string) error {
	if err := unix.Unshare(unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("unshare hostname namespace: %w", err)
	}
	if err := unix.Sethostname([]byte(hostname)); err != nil {
		return fmt.Errorf("set hostname %s: %w", hostname, err)
	}
	return nil
}

// Open takes hold of the namespace behind a path, such as /proc/PID/ns/net.
func Open(path string) (*Space, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open network namespace: %w", err)
	}
	s := &Space{file: f}
	err = s.Do(func() (err error) {
		s.id, err = identify(s.Fd())
		return err
	})
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return s, nil
}

// Fd is the descriptor that keeps the namespace alive. It stays owned by s.
func (s *Space) Fd() int { return int(s.file.Fd()) }

// ID is the namespace's identity.
func (s *Space) ID() ID { return s.id }

// Close gives up the namespace. The kernel removes it once no process and no
// socket is left in it.
func (s *Space) Close() error {
	if s.uts != nil {
		_ = s.uts.Close()
	}
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// Do runs f on a thread inside the namespace and returns its error. Sockets
// that f opens belong to the namespace for good; goroutines that f starts run
// outside it. Start processes with a Spawner, not here: a child asking for a
// signal on its parent's death would get it when f returns.
func (s *Space) Do(f func() error) error {
	return thread(func() error {
		if err := enter(s.Fd()); err != nil {
			return err
		}
		if s.uts != nil {
			if err := unix.Setns(int(s.uts.Fd()), unix.CLONE_NEWUTS); err != nil {
				return fmt.Errorf("enter hostname namespace: %w", err)
			}
		}
		return f()
	})
}

// Enter moves the calling thread into the network namespace behind path for
// good, and gives it a hostname. It is for a process about to replace itself
// with exec(2).
func Enter(path, hostname string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	defer func() { _ = f.Close() }()
	runtime.LockOSThread()
	if err := enter(int(f.Fd())); err != nil {
		return err
	}
	return rename(hostname)
}

func enter(fd int) error {
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	return nil
}

// thread runs f on an OS thread that dies with it.
func thread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the runtime then ends the thread
		if unix.Gettid() != os.Getpid() {
			done <- f()
			return
		}
		// The main thread cannot end, and /proc/PID/ns shows its namespace as
		// that of the process. Hold it, so that f gets another one.
		defer runtime.UnlockOSThread()
		done <- thread(f)
	}()
	return <-done
}

// identify reads the identity of the namespace that the calling thread is in
// and that fd stands for.
func identify(fd int) (ID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return ID{}, fmt.Errorf("stat network namespace: %w", err)
	}
	id := ID{Inode: st.Ino}
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ID{}, fmt.Errorf("open socket: %w", err)
	}
	defer func() { _ = unix.Close(sock) }()
	if c, err := unix.GetsockoptUint64(sock, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE); err == nil {
		id.Cookie = c
	}
	return id, nil
}

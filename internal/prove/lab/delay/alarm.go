package delay

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// NewAlarm returns the most exact alarm this kernel gives.
func NewAlarm() Alarm {
	if a, err := newTimerFd(); err == nil {
		return a
	}
	return NewTimer()
}

// timerFd is an alarm on timerfd_create(2). The runtime's own timers sleep in
// epoll_wait(2), whose timeout counts milliseconds, so they are up to 1 ms
// late; a timer descriptor wakes the same epoll_wait by the kernel's
// high-resolution clock.
type timerFd struct {
	file *os.File
}

func newTimerFd() (*timerFd, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create timer: %w", err)
	}
	return &timerFd{file: os.NewFile(uintptr(fd), "timerfd")}, nil
}

func (t *timerFd) Until(at time.Time) error {
	wait := time.Until(at)
	if wait <= 0 {
		return nil
	}
	conn, err := t.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("use timer: %w", err)
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(wait.Nanoseconds())}
	var setErr error
	if err := conn.Control(func(fd uintptr) { setErr = unix.TimerfdSettime(int(fd), 0, &spec, nil) }); err != nil {
		return fmt.Errorf("use timer: %w", err)
	}
	if setErr != nil {
		return fmt.Errorf("set timer: %w", setErr)
	}
	var expirations [8]byte
	if _, err := t.file.Read(expirations[:]); err != nil {
		return fmt.Errorf("read timer: %w", err)
	}
	return nil
}

func (t *timerFd) Close() error { return t.file.Close() }

// Timer is an alarm on the runtime's timers.
type Timer struct {
	once   sync.Once
	closed chan struct{}
}

// NewTimer returns an alarm on the runtime's timers.
func NewTimer() *Timer { return &Timer{closed: make(chan struct{})} }

// Until waits for at.
func (t *Timer) Until(at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.closed:
		return os.ErrClosed
	}
}

// Close ends a running Until.
func (t *Timer) Close() error {
	t.once.Do(func() { close(t.closed) })
	return nil
}

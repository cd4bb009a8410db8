package bfd

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// realtime puts the calling goroutine on a thread of its own that runs before
// every ordinary one (SCHED_RR, lowest priority), until restore. It needs
// CAP_SYS_NICE. Threads that the runtime starts from it are ordinary.
func realtime() (restore func(), err error) {
	runtime.LockOSThread()
	before, err := unix.SchedGetAttr(0, 0)
	if err == nil {
		err = unix.SchedSetAttr(0, &unix.SchedAttr{
			Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK,
		}, 0)
	}
	if err != nil {
		runtime.UnlockOSThread()
		return func() {}, fmt.Errorf("set scheduling class SCHED_RR: %w", err)
	}
	return func() {
		// A thread that cannot be put back must not serve other goroutines: it
		// stays locked and ends with this one.
		if unix.SchedSetAttr(0, before, 0) == nil {
			runtime.UnlockOSThread()
		}
	}, nil
}

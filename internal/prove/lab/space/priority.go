package space

import (
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// native is the nice value that the process was started with; children get it
// whatever the process has become since.
var native = sync.OnceValue(func() int {
	v, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return 0
	}
	return 20 - v // the system call returns 1 to 40, see getpriority(2)
})

// Prefer raises the scheduling priority of this process by the given steps of
// nice over what it was started with. On Linux the value belongs to threads,
// and a thread passes it on to those it starts; processes started by a Spawner
// do not get it.
func Prefer(steps int) error {
	nice := native() - steps
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("list threads: %w", err)
	}
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, tid, nice); err != nil && err != unix.ESRCH {
			return fmt.Errorf("set priority: %w", err)
		}
	}
	return nil
}

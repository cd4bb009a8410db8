package space

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// join is a list of namespaces, apart from the network, for a thread to enter.
type join struct {
	files []*os.File
	kinds []int
}

// open adds the namespace that process pid has of a kind, by its name in
// /proc/PID/ns.
func (j *join) open(pid int, name string, kind int) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
	if err != nil {
		return fmt.Errorf("open namespace: %w", err)
	}
	j.files, j.kinds = append(j.files, f), append(j.kinds, kind)
	return nil
}

func (j *join) close() {
	for _, f := range j.files {
		_ = f.Close()
	}
}

// enter moves the calling thread. The pid namespace is that of its children,
// never its own.
func (j *join) enter() error {
	if j == nil {
		return nil
	}
	// The kernel refuses a thread that shares its working directory with others.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare working directory: %w", err)
	}
	for i, f := range j.files {
		if err := unix.Setns(int(f.Fd()), j.kinds[i]); err != nil {
			return fmt.Errorf("enter namespace %s: %w", f.Name(), err)
		}
	}
	return nil
}

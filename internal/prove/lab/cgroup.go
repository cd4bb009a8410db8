package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cgroupParent is the cgroup of all labs, below which each has one named after
// the process that owns it.
const cgroupParent = "holdfast"

// cgroupOwner names the calling process beyond doubt until a reboot, which
// takes cgroups with it: its pid and when it started.
func cgroupOwner() (string, error) {
	ticks, err := startTicks(os.Getpid())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d-%d", os.Getpid(), ticks), nil
}

// cgroupRoot is the cgroup of a node's containers.
func (n *Node) cgroupRoot() (string, error) {
	owner, err := cgroupOwner()
	return filepath.Join("/", cgroupParent, owner, n.lab.id, n.name), err
}

// sweepCgroups removes the cgroups of labs whose processes have ended, and of
// the given lab of this process, if any. Their containers must be gone.
func sweepCgroups(own string) error {
	owner, err := cgroupOwner()
	if err != nil {
		return err
	}
	var errs []error
	// One hierarchy in version 2, one per controller in version 1.
	for _, glob := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		labs, err := filepath.Glob(filepath.Join(glob, cgroupParent, "*"))
		if err != nil {
			return fmt.Errorf("list cgroups: %w", err)
		}
		for _, dir := range labs {
			if filepath.Base(dir) == owner && own != "" {
				errs = append(errs, removeCgroup(filepath.Join(dir, own)))
				_ = os.Remove(dir) // unless another lab of this process is there
			} else if !ownerLives(filepath.Base(dir)) {
				errs = append(errs, removeCgroup(dir))
			}
			_ = os.Remove(filepath.Dir(dir))
		}
	}
	return errors.Join(errs...)
}

func ownerLives(name string) bool {
	pid, ticks, ok := strings.Cut(name, "-")
	n, err := strconv.Atoi(pid)
	if !ok || err != nil {
		return true // not ours: leave it
	}
	now, err := startTicks(n)
	return err == nil && strconv.FormatUint(now, 10) == ticks
}

// removeCgroup removes a cgroup with those below it. Files in them need no
// removal and allow none.
func removeCgroup(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	slices.Reverse(dirs) // children before parents
	for _, d := range dirs {
		if e := rmdir(d); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("remove cgroup %s: %w", d, e))
		}
	}
	return err
}

// rmdir waits while the processes of a machine are dying.
func rmdir(dir string) error {
	const patience = 5 * time.Second
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := syscall.Rmdir(dir)
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(end) {
			return err
		}
	}
}

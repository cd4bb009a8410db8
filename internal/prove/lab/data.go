package lab

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// memory is where etcd's files go by default.
const memory = "/dev/shm"

// lockName is the file in a data directory that its lab keeps locked for as
// long as it lives. The kernel drops the lock with the process, so a directory
// whose file can be locked belongs to a lab that was killed.
const lockName = "lock"

// makeData chooses memory for etcd's files where there is one, and removes
// there what killed labs have left. The lock is nil on disk, where the data
// stands in the run directory.
func makeData(dir string, spec Spec) (string, *os.File, error) {
	var st unix.Statfs_t
	if !spec.Disk && unix.Statfs(memory, &st) == nil && st.Type == unix.TMPFS_MAGIC {
		sweepData(memory)
		if d, lock, err := makeLocked(memory, "holdfast-lab-"+spec.Name+"-"); err == nil {
			return d, lock, nil
		}
	}
	d := filepath.Join(dir, "data")
	if err := os.MkdirAll(d, 0o700); err != nil {
		return "", nil, fmt.Errorf("make data directory: %w", err)
	}
	return d, nil, nil
}

// makeLocked makes a directory with a locked lock file in it. The file gets its
// name only once it is locked, so that no sweep finds it free.
func makeLocked(parent, prefix string) (string, *os.File, error) {
	d, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return "", nil, fmt.Errorf("make data directory: %w", err)
	}
	lock, err := os.CreateTemp(d, lockName)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		err = os.Rename(lock.Name(), filepath.Join(d, lockName))
	}
	if err != nil {
		_ = os.RemoveAll(d)
		return "", nil, fmt.Errorf("lock data directory: %w", err)
	}
	return d, lock, nil
}

// sweepData removes the data of labs that were killed.
func sweepData(parent string) {
	dirs, err := filepath.Glob(filepath.Join(parent, "holdfast-lab-*"))
	if err != nil {
		return
	}
	for _, d := range dirs {
		lock, err := os.OpenFile(filepath.Join(d, lockName), os.O_RDWR, 0)
		if err != nil {
			continue // not ours, or just being made
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(d)
		}
		_ = lock.Close()
	}
}

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

const (
	cgroupMount = "/sys/fs/cgroup"
	// cgroupParent is the cgroup of all labs, below which each process that
	// owns labs has one named after it, and each lab one in that.
	cgroupParent = "holdfast"
)

// cgroupOwner names a process beyond doubt until a reboot, which takes cgroups
// with it: its pid and when it started.
func cgroupOwner(pid int, ticks uint64) string { return fmt.Sprintf("%d-%d", pid, ticks) }

// ownCgroupOwner is the calling process.
func ownCgroupOwner() (string, error) {
	ticks, err := startTicks(os.Getpid())
	return cgroupOwner(os.Getpid(), ticks), err
}

// cgroupRoot is the cgroup of a node's containers.
func (n *Node) cgroupRoot() (string, error) {
	owner, err := ownCgroupOwner()
	return filepath.Join("/", cgroupParent, owner, n.lab.id, n.name), err
}

// hierarchies lists the mounted trees of cgroups: one in version 2, one per set
// of controllers in version 1, both in a hybrid. Some are links to others.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.procs")); err == nil {
		return []string{cgroupMount}, nil
	}
	files, err := filepath.Glob(filepath.Join(cgroupMount, "*", "cgroup.procs"))
	if err != nil {
		return nil, fmt.Errorf("list cgroups: %w", err)
	}
	for i := range files {
		files[i] = filepath.Dir(files[i])
	}
	return files, nil
}

// makeCgroup makes a cgroup in every hierarchy.
func makeCgroup(name string) error {
	trees, err := hierarchies()
	if err != nil {
		return err
	}
	for _, tree := range trees {
		// The end of another lab may take an empty parent away in between.
		for range 10 {
			if err = makeCgroupIn(tree, name); !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
		if err != nil {
			return fmt.Errorf("make cgroup: %w", err)
		}
	}
	return nil
}

// makeCgroupIn makes the cgroup with its parents. In version 2 a parent hands
// its controllers down only when it is told to (Documentation/admin-guide/
// cgroup-v2.rst, "Enabling and Disabling").
func makeCgroupIn(tree, name string) error {
	dir := tree
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		if data, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers")); err == nil {
			for _, c := range strings.Fields(string(data)) {
				// What it may not hand down, the kubelet names.
				_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0)
			}
		}
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// sweepCgroups removes the cgroups of one owner, or of one of its labs, once
// its containers are gone, and those of owners that have ended if they are
// empty.
func sweepCgroups(owner, lab string) error {
	trees, err := hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, tree := range trees {
		parent := filepath.Join(tree, cgroupParent)
		owners, err := os.ReadDir(parent)
		if err != nil {
			continue // there never was one
		}
		for _, o := range owners {
			dir := filepath.Join(parent, o.Name())
			switch {
			case !o.IsDir():
			case o.Name() == owner:
				errs = append(errs, removeCgroup(filepath.Join(dir, lab), rmdirPatiently))
				_ = syscall.Rmdir(dir) // unless another lab of the process is there
			case !ownerLives(o.Name()):
				_ = removeCgroup(dir, syscall.Rmdir)
			}
		}
		_ = syscall.Rmdir(parent)
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

// removeCgroup removes a cgroup with those below it. The files in them need no
// removal and allow none.
func removeCgroup(dir string, rmdir func(string) error) error {
	var dirs []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	slices.Reverse(dirs) // children before parents
	for _, d := range dirs {
		if err := rmdir(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove cgroup %s: %w", d, err)
		}
	}
	return nil
}

// rmdirPatiently waits while the processes of a machine are dying.
func rmdirPatiently(dir string) error {
	const patience = 5 * time.Second
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := syscall.Rmdir(dir)
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(end) {
			return err
		}
	}
}

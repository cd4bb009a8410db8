package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// movable refuses, long before it matters, data that could not be moved aside
// by rename.
func movable(e Etcd) error {
	inside := []string{filepath.Join(e.DataDir, "member"), filepath.Join(e.DataDir, "member", "snap")}
	if e.WALDir == "" {
		inside = append(inside, filepath.Join(e.DataDir, "member", "wal"))
	}
	home, there, err := device(e.DataDir)
	if err != nil || !there {
		return err
	}
	for _, dir := range inside {
		if err := onDevice(dir, home, "mount the data directory as a whole: "+e.DataDir); err != nil {
			return err
		}
	}
	if e.WALDir == "" {
		return nil
	}
	above, there, err := device(filepath.Dir(e.WALDir))
	if err != nil || !there {
		return err
	}
	return onDevice(e.WALDir, above, "give etcd a directory below it as --wal-dir")
}

// device is the file system that a path is on.
func device(path string) (dev uint64, there bool, err error) {
	var st unix.Stat_t
	err = unix.Stat(path, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("look at %s: %w", path, err)
	}
	return st.Dev, true, nil
}

// onDevice refuses a directory that is a link, or another file system's.
func onDevice(dir string, want uint64, remedy string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return refuse(Immovable, remedy, "%s is a symbolic link", dir)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Dev != want {
		return refuse(Immovable, remedy, "%s is on another file system than the directory that it is in", dir)
	}
	// A bind mount may be of the same file system.
	var x unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, dir, unix.AT_SYMLINK_NOFOLLOW, 0, &x) == nil && x.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return refuse(Immovable, remedy, "%s is a mount point", dir)
	}
	return nil
}

// ownAs gives a path to whom the directory belongs to.
func ownAs(path, like string) error {
	info, err := os.Stat(like)
	if err != nil {
		return fmt.Errorf("look at %s: %w", like, err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) == os.Geteuid() {
		return nil
	}
	if err := os.Lchown(path, int(st.Uid), int(st.Gid)); err != nil {
		return fmt.Errorf("give %s to user %d: %w", path, st.Uid, err)
	}
	return nil
}

func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return nil
}

func syncDirs(dirs ...string) error {
	for _, dir := range dirs {
		f, err := os.Open(dir)
		if err != nil {
			return fmt.Errorf("sync directory: %w", err)
		}
		err = f.Sync()
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("sync directory: %w", err)
		}
	}
	return nil
}

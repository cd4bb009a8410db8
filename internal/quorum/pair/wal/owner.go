package wal

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// asOwner runs f with the file access of the owner of path, so that etcd finds
// every file it may meet as its own: as root on a thread that is given the
// owner's ids, which also holds where a network file system grants root nothing.
// Another user than root or the owner is refused.
func asOwner(path string, f func() error) error {
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return refuse(NotThere, "name the directory that etcd has as --data-dir, and --wal-dir if it is elsewhere", "no directory %s", path)
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("look at %s: no owner", path)
	}
	uid, gid := int(owner.Uid), int(owner.Gid)
	switch os.Geteuid() {
	case uid:
		return f()
	case 0:
	default:
		return refuse(NotOwner, fmt.Sprintf("run as user %d or as root", uid), "%s belongs to user %d", path, uid)
	}
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with the goroutine and takes its ids
		// with it.
		runtime.LockOSThread()
		if err := become(uid, gid); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// become sets the ids by which the kernel judges this thread's file access. The
// calls report no error; a second one tells what the first has come to.
func become(uid, gid int) error {
	if err := unix.Setfsgid(gid); err != nil {
		return fmt.Errorf("become group %d: %w", gid, err)
	}
	if now, err := unix.SetfsgidRetGid(-1); err != nil || now != gid {
		return fmt.Errorf("become group %d: still %d (%v)", gid, now, err)
	}
	if err := unix.Setfsuid(uid); err != nil {
		return fmt.Errorf("become user %d: %w", uid, err)
	}
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != uid {
		return fmt.Errorf("become user %d: still %d (%v)", uid, now, err)
	}
	return nil
}

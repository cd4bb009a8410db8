package lab

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// tryMount mounts in a mount namespace that ends with the call, so that
// nothing is ever left of it.
func tryMount(kind, target, options string) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the runtime then ends the thread
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
				return fmt.Errorf("unshare mounts: %w", err)
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return fmt.Errorf("make mounts private: %w", err)
			}
			return unix.Mount(kind, target, kind, 0, options)
		}()
	}()
	return <-done
}

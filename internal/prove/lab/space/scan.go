package space

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Processes lists the processes, other than the calling one, whose network
// namespace is one of ids. Processes that end meanwhile are left out.
func Processes(ids []ID) ([]int, error) {
	wanted := make(map[uint64]ID, len(ids))
	for _, id := range ids {
		wanted[id.Inode] = id
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if inside(pid, wanted) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// inside compares the cheap inode first and asks for the cookie only on a hit.
func inside(pid int, wanted map[uint64]ID) bool {
	path := fmt.Sprintf("/proc/%d/ns/net", pid)
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return false
	}
	want, ok := wanted[st.Ino]
	if !ok {
		return false
	}
	got, err := Of(path)
	return err == nil && got == want
}

// Of identifies the namespace behind a path, such as /proc/PID/ns/net or a
// descriptor in /proc/PID/fd.
func Of(path string) (ID, error) {
	var id ID
	err := thread(func() error {
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("open network namespace: %w", err)
		}
		defer func() { _ = f.Close() }()
		if err := enter(int(f.Fd())); err != nil {
			return err
		}
		id, err = identify(int(f.Fd()))
		return err
	})
	return id, err
}

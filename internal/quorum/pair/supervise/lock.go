package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// database is the file that etcd locks before anything else and until it ends.
func database(dataDir string) string { return filepath.Join(dataDir, "member", "snap", "db") }

// lockData takes the lock that etcd has on its data directory, or says that
// another process has it: held is nil then, or where there is no database.
func lockData(dataDir string) (held *os.File, taken bool, err error) {
	f, err := os.Open(database(dataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("look at etcd's lock: %w", err)
	}
	// Shared: an open for reading is enough for it, also on NFS, and etcd's
	// exclusive one keeps it out just so.
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		return f, false, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, true, nil
	}
	return nil, false, fmt.Errorf("look at etcd's lock: lock %s: %w", f.Name(), err)
}

// inUse says whether a process runs etcd on the data directory. It takes the
// lock for an instant, for which a starting etcd would wait.
func inUse(dataDir string) (bool, error) {
	f, taken, err := lockData(dataDir)
	if f != nil {
		_ = f.Close()
	}
	return taken, err
}

// holder finds the process that has the lock, for a person to read: 0 where
// the kernel does not show it, as from another container.
func holder(dataDir string) int {
	var st unix.Stat_t
	if unix.Stat(database(dataDir), &st) != nil {
		return 0
	}
	f, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	inode := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 1: FLOCK  ADVISORY  WRITE 4242 fe:00:1234 0 EOF
		w := strings.Fields(lines.Text())
		if len(w) >= 6 && w[1] == "FLOCK" && w[3] == "WRITE" && w[5] == inode {
			pid, _ := strconv.Atoi(w[4])
			return pid
		}
	}
	return 0
}

// taken is the refusal of a data directory that another process uses.
func taken(dataDir string) error {
	who := "a process that cannot be seen from here, as in another container,"
	if pid := holder(dataDir); pid > 0 {
		who = fmt.Sprintf("process %d (%s)", pid, commandLine(pid))
	}
	return refuse(Taken, "stop and disable whatever runs it, such as: systemctl disable --now etcd",
		"%s runs etcd on %s already", who, dataDir)
}

// commandLine is the beginning of a process's command line, for people.
func commandLine(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(b) == 0 {
		return "?"
	}
	line := strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
	if len(line) > 80 {
		line = line[:80] + "…"
	}
	return line
}

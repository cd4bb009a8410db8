package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// prepareState makes the state directory.
func prepareState(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return refuse(NotPermitted, "create it, or give another --state-dir", "state directory: %v", err)
	}
	return nil
}

// lockState keeps a second agent away until the file is closed.
func lockState(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, refuse(NotPermitted, "allow it, or give another --state-dir", "state directory: %v", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, refuse(Busy, "stop it, or give this one its own --state-dir", "another agent uses the state directory %s", dir)
		}
		return nil, fmt.Errorf("lock state directory %s: %w", dir, err)
	}
	return f, nil
}

// ready looks for what a start would fail of, and completes a move of data that
// was cut short.
func ready(e Etcd, in input) error {
	if err := finishMoves(e); err != nil {
		return err
	}
	if err := readyDir(e); err != nil {
		return err
	}
	if err := readySpace(e); err != nil {
		return err
	}
	s, err := in.settings()
	if err != nil {
		return err
	}
	if shared, _ := s.on("socket-reuse-port"); shared {
		return nil
	}
	return readyPorts(e)
}

// readyDir makes the data directory if there is none, and checks that it
// belongs to who etcd runs as.
func readyDir(e Etcd) error {
	if err := os.Mkdir(e.DataDir, 0o700); err == nil {
		if e.UID != os.Geteuid() {
			return os.Lchown(e.DataDir, e.UID, e.GID)
		}
		return nil
	} else if !errors.Is(err, fs.ErrExist) {
		return refuse(NotPermitted, "create it for the user that etcd runs as", "data directory: %v", err)
	}
	for _, dir := range []string{e.DataDir, filepath.Join(e.DataDir, "member"), e.WALDir} {
		info, err := os.Stat(dir)
		if dir == "" || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("look at data directory: %w", err)
		}
		if !info.IsDir() {
			return refuse(NotPermitted, "correct --data-dir or --wal-dir", "%s is no directory", dir)
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if ok && int(st.Uid) != e.UID {
			return refuse(NotPermitted, fmt.Sprintf("run etcd as that user, or give it the directory: chown -R %d %s", e.UID, dir),
				"%s belongs to user %d, and etcd would run as user %d", dir, st.Uid, e.UID)
		}
	}
	return nil
}

// leastSpace is what a start writes at the least: a page of the database and
// one of the log. etcd itself wants 64 MB for its next segment, and goes on
// without for as long as it needs none.
const leastSpace = 1 << 20

func readySpace(e Etcd) error { return Room(e, leastSpace) }

// Room returns a *Refusal if fewer bytes are free where etcd keeps its data, or its log.
func Room(e Etcd, least uint64) error {
	for _, dir := range []string{e.DataDir, e.WALDir} {
		var st unix.Statfs_t
		if dir == "" || unix.Statfs(dir, &st) != nil {
			continue
		}
		if free := st.Bavail * uint64(st.Bsize); free < least {
			return refuse(NoSpace, "make room", "%d bytes are free in %s, and %d are needed", free, dir, least)
		}
	}
	return nil
}

// readyPorts checks that etcd can listen where it has to.
func readyPorts(e Etcd) error {
	for _, text := range slices.Concat(e.ClientURLs, e.PeerURLs, e.MetricsURLs) {
		u, err := url.Parse(text)
		if err != nil || !strings.HasPrefix(u.Scheme, "http") {
			continue
		}
		l, err := net.Listen("tcp", u.Host)
		switch {
		case err == nil:
			_ = l.Close()
		case errors.Is(err, unix.EADDRINUSE):
			return refuse(PortTaken, "stop what listens there, or give etcd another port; see: ss -ltnp", "%s is in use", u.Host)
		case errors.Is(err, unix.EADDRNOTAVAIL):
			return refuse(PortTaken, "correct the URL, or give this machine the address", "%s is no address of this machine", u.Hostname())
		case errors.Is(err, unix.EACCES):
			return refuse(NotPermitted, "choose a port from 1024 up", "%s may not be listened on", u.Host)
		}
	}
	return nil
}

package wal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// stored is what etcd's database says about the cluster, as of the entry
// consistent, the last that was applied to it.
type stored struct {
	consistent uint64
	version    string // "3.6.0"
	members    map[uint64]storedMember
	removed    map[uint64]bool
}

type storedMember struct {
	ID        uint64   `json:"id"`
	Name      string   `json:"name"`
	PeerURLs  []string `json:"peerURLs"`
	IsLearner bool     `json:"isLearner"`
}

// database is etcd's bbolt file, held under bbolt's lock for readers: a started
// etcd waits for it before it looks at the log.
type database struct{ file *os.File }

func openDatabase(path string) (*database, error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, refuse(Damaged, remedyDamaged, "no database %s", path)
	case errors.Is(err, fs.ErrPermission):
		return nil, refuse(NotOwner, "run as the owner of the files, or as root", "open %s: permission denied", path)
	case err != nil:
		return nil, fmt.Errorf("open database: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		return &database{f}, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, refuse(Running, remedyRunning, "another process has locked %s", path)
	}
	return nil, fmt.Errorf("lock database: %w", err)
}

func (d *database) close() { d.file.Close() }

// read takes the few keys that matter.
func (d *database) read() (stored, error) {
	s := stored{members: map[uint64]storedMember{}, removed: map[uint64]bool{}}
	t, err := openTree(d.file)
	for _, bucket := range []struct {
		name string
		read func(k, v []byte) error
	}{
		{"meta", s.readMeta},
		{"cluster", s.readCluster},
		{"members", s.readMember},
		{"members_removed", s.readRemoved},
	} {
		if err == nil {
			err = t.bucket(bucket.name, bucket.read)
		}
	}
	if err != nil {
		return stored{}, refuse(Damaged, remedyDamaged, "read %s: %v", filepath.Base(d.file.Name()), err)
	}
	return s, nil
}

// readMeta reads how far the database is and, since 3.6, the version of the
// storage.
func (s *stored) readMeta(k, v []byte) error {
	switch {
	case string(k) == "consistent_index" && len(v) == 8:
		s.consistent = binary.BigEndian.Uint64(v)
	case string(k) == "storageVersion":
		s.version = string(v)
	}
	return nil
}

// readCluster reads the cluster's version, which 3.5 has alone.
func (s *stored) readCluster(k, v []byte) error {
	if string(k) == "clusterVersion" && s.version == "" {
		s.version = string(v)
	}
	return nil
}

func (s *stored) readMember(k, v []byte) error {
	id, err := strconv.ParseUint(string(k), 16, 64)
	if err != nil {
		return fmt.Errorf("a member called %q", k)
	}
	var m storedMember
	if err := json.Unmarshal(v, &m); err != nil || m.ID != id {
		return fmt.Errorf("member %s: not its description", k)
	}
	s.members[id] = m
	return nil
}

func (s *stored) readRemoved(k, _ []byte) error {
	id, err := strconv.ParseUint(string(k), 16, 64)
	if err != nil {
		return fmt.Errorf("a removed member called %q", k)
	}
	s.removed[id] = true
	return nil
}

// receivedDatabase is the file of a snapshot up to index that a leader sent. etcd
// puts it in the database's place when it starts.
func receivedDatabase(snap string, index uint64) string {
	return filepath.Join(snap, fmt.Sprintf("%016x.snap.db", index))
}

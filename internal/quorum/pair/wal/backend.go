package wal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
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

// database is etcd's bbolt file, held under its lock: a started etcd waits for
// it before it looks at the log.
type database struct{ db *bolt.DB }

// lockWait is how long another reader of the database is waited for. A running
// etcd holds it for its whole life.
const lockWait = 100 * time.Millisecond

func openDatabase(path string) (*database, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, refuse(Damaged, remedyDamaged, "no database %s", path)
	}
	var db *bolt.DB
	err := guarded(func() (err error) {
		db, err = bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: lockWait})
		return err
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, refuse(Running, remedyRunning, "another process has locked %s", path)
	case errors.Is(err, fs.ErrPermission):
		return nil, refuse(NotOwner, "run as the owner of the files, or as root", "open %s: permission denied", path)
	case err != nil:
		return nil, refuse(Damaged, remedyDamaged, "open %s: %v", path, err)
	}
	return &database{db}, nil
}

func (d *database) close() error {
	if err := d.db.Close(); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}

// guarded runs f and turns what bbolt does on a damaged file, panics and faults
// outside of its map, into an error.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged database: %v", p)
		}
	}()
	return f()
}

// read takes the few keys that matter.
func (d *database) read() (stored, error) {
	s := stored{members: map[uint64]storedMember{}, removed: map[uint64]bool{}}
	err := guarded(func() error {
		return d.db.View(func(tx *bolt.Tx) error {
			for _, read := range []func(*bolt.Tx, *stored) error{readMeta, readMembers, readRemoved} {
				if err := read(tx, &s); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return stored{}, refuse(Damaged, remedyDamaged, "read %s: %v", filepath.Base(d.db.Path()), err)
	}
	return s, nil
}

// readMeta reads how far the database is and who wrote it: since 3.6 there is a
// version of the storage, before that the cluster's.
func readMeta(tx *bolt.Tx, s *stored) error {
	if meta := tx.Bucket([]byte("meta")); meta != nil {
		if v := meta.Get([]byte("consistent_index")); len(v) == 8 {
			s.consistent = binary.BigEndian.Uint64(v)
		}
		s.version = string(meta.Get([]byte("storageVersion")))
	}
	if cluster := tx.Bucket([]byte("cluster")); cluster != nil && s.version == "" {
		s.version = string(cluster.Get([]byte("clusterVersion")))
	}
	return nil
}

func readMembers(tx *bolt.Tx, s *stored) error {
	b := tx.Bucket([]byte("members"))
	if b == nil {
		return nil
	}
	return b.ForEach(func(k, v []byte) error {
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
	})
}

func readRemoved(tx *bolt.Tx, s *stored) error {
	b := tx.Bucket([]byte("members_removed"))
	if b == nil {
		return nil
	}
	return b.ForEach(func(k, _ []byte) error {
		id, err := strconv.ParseUint(string(k), 16, 64)
		if err != nil {
			return fmt.Errorf("a removed member called %q", k)
		}
		s.removed[id] = true
		return nil
	})
}

// receivedDatabase is the file of a snapshot up to index that a leader sent. etcd
// puts it in the database's place when it starts.
func receivedDatabase(snap string, index uint64) string {
	return filepath.Join(snap, fmt.Sprintf("%016x.snap.db", index))
}

package pair

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/base/file"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
)

// memory is the agent's own directory: the newest record seen, by which an
// arbiter that has gone back is recognised, and a lock against a second agent.
type memory struct {
	dir  string
	lock *os.File
}

// recordFile holds the newest record seen, as JSON.
const recordFile = "record.json"

// errSecond says that another agent has the directory.
var errSecond = errors.New("another agent has it")

// openMemory makes the directory and takes its lock until the process ends.
func openMemory(dir string) (*memory, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("stateDir: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("stateDir: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close() // it was not locked
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("stateDir %s: %w; give each its own", dir, errSecond)
		}
		return nil, fmt.Errorf("stateDir %s: lock: %w", dir, err)
	}
	return &memory{dir: dir, lock: f}, nil
}

// close gives the lock back.
func (m *memory) close() { _ = m.lock.Close() }

// readSeen is the newest record seen; the zero one if none was.
func readSeen(dir string) (arbiter.Record, error) {
	path := filepath.Join(dir, recordFile)
	b, err := file.Read(path, arbiter.MaxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return arbiter.Record{}, nil
	}
	if err != nil {
		return arbiter.Record{}, fmt.Errorf("read %s: %w", path, err)
	}
	r, err := arbiter.Decode(b)
	if err != nil {
		return arbiter.Record{}, fmt.Errorf("read %s: %w; it tells an arbiter that was restored from a backup: if the arbiter's record is right, move the file away", path, err)
	}
	return r, nil
}

// keep stores the newest record seen; it is on the disk when keep returns.
func (m *memory) keep(r arbiter.Record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	if err := replace(filepath.Join(m.dir, recordFile), append(b, '\n')); err != nil {
		return fmt.Errorf("stateDir %s: make room, or mend the disk: %w", m.dir, err)
	}
	return nil
}

// replace puts data in the place of a file, durably, or leaves it as it was.
func replace(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // what is left of it harms nobody
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

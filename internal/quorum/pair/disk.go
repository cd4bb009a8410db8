package pair

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// diskPatience is how long the own disk may take for a few bytes before a claim.
const diskPatience = 2 * time.Second

// disk tells whether the own disk takes a write. A member whose disk hangs answers and
// has a leader, but neither commits nor could be edited: it should not claim.
type disk struct{ waiting atomic.Bool }

var errHangs = errors.New("the disk does not take a write; no claim by this site")

// takes writes and syncs a few bytes beside etcd's data. A write that hangs is left
// behind, and no further one begun before it has ended.
func (d *disk) takes(dir string) error {
	if !d.waiting.CompareAndSwap(false, true) {
		return errHangs
	}
	done := make(chan error, 1)
	go func() {
		err := writeThrough(dir)
		d.waiting.Store(false)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(diskPatience):
		return errHangs
	}
}

func writeThrough(dir string) (err error) {
	f, err := os.CreateTemp(dir, ".holdfast-*")
	if err != nil {
		return fmt.Errorf("try the disk: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(filepath.Base(f.Name()))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("try the disk: %w", err)
	}
	return nil
}

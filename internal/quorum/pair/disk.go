package pair

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// diskPatience is how long the own disk may take for a few bytes before a claim.
const diskPatience = 2 * time.Second

// disk tells whether the own disk takes a write. A member whose disk hangs answers and
// has a leader, but neither commits nor could be edited: it should not claim.
type disk struct{ waiting atomic.Bool }

var errHangs = errors.New("the disk does not take a write; no claim by this site")

// diskPage is as much as a record, or a page of etcd's database, needs.
const diskPage = 4096

// takes writes and syncs a page in each of the directories; empty names are passed over.
// A write that hangs is left behind, and no further one begun before it has ended.
func (d *disk) takes(dirs ...string) error {
	if !d.waiting.CompareAndSwap(false, true) {
		return errHangs
	}
	done := make(chan error, 1)
	go func() {
		var err error
		for _, dir := range dirs {
			if dir != "" && err == nil {
				err = writeThrough(dir)
			}
		}
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
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s takes no write: make room, or mend the disk; no claim by this site: %w", dir, err)
		}
	}()
	f, err := os.CreateTemp(dir, ".holdfast-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(make([]byte, diskPage))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Data is moved within the data directory: "member", and what package wal left
// about it, go to holdfast/aside-TAG-NNN. That needs no right on the directory
// above, works where the data directory is a disk of its own, and etcd leaves
// what is beside "member" alone. A --wal-dir is renamed to a name beside it:
// etcd removes whatever it finds in one before it makes a new log.
const (
	asideParent = "holdfast"
	asidePrefix = "aside-"
	asideMarker = "aside.json"
	movedWAL    = ".holdfast-aside-"
)

// aside is the marker of a directory that data was moved to. It is written
// before anything is moved, and again when everything is.
type aside struct {
	Version int    `json:"version"`
	Tag     string `json:"tag"`
	// Data is the data directory, WAL the --wal-dir or empty; WALTo is where
	// the latter is moved to.
	Data  string `json:"data"`
	WAL   string `json:"wal,omitempty"`
	WALTo string `json:"wal_to,omitempty"`
	// Done says that everything is moved.
	Done bool `json:"done"`
	// Time is for people.
	Time time.Time `json:"time"`

	dir string
}

// interrupt is called before each step that changes something on the disk, for
// tests that end there.
var interrupt = func() {}

var tagForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.]*[a-z0-9])?$`)

// SetAside moves the data of a stopped member away, so that etcd finds an empty
// directory, and returns where it is now: the same place when it is repeated
// with nothing new to move, and empty when there never was anything. It is
// all on the disk before it returns. Killed at any moment, it is completed by
// the next one with whatever tag, and by the next start.
//
// Tag is of lower-case letters, digits and dots, such as "g7". A *Refusal says
// what is in the way.
func SetAside(e Etcd, tag string) (string, error) {
	if !tagForm.MatchString(tag) {
		return "", fmt.Errorf("set data aside: tag %q has more than a-z, 0-9 and dots", tag)
	}
	if err := movable(e); err != nil {
		return "", err
	}
	lock, used, err := lockData(e.DataDir)
	if err != nil {
		return "", err
	}
	if used {
		return "", taken(e.DataDir)
	}
	if lock != nil {
		defer func() { _ = lock.Close() }()
	}
	if err := finishMoves(e); err != nil {
		return "", err
	}
	if !hasData(e) {
		return lastAside(e, tag)
	}
	a, err := newAside(e, tag)
	if err != nil {
		return "", err
	}
	return a.dir, a.move()
}

// hasData says whether there is anything to move.
func hasData(e Etcd) bool {
	if _, err := os.Lstat(filepath.Join(e.DataDir, "member")); err == nil {
		return true
	}
	return e.WALDir != "" && hasWAL(e.WALDir)
}

// hasWAL says whether etcd takes the directory for one with a log.
func hasWAL(dir string) bool {
	segments, _ := filepath.Glob(filepath.Join(dir, "*.wal"))
	return len(segments) > 0
}

// asides lists the moves of a data directory, oldest first. One that was killed
// before its marker was written moved nothing, and is passed over.
func asides(dataDir string) ([]*aside, error) {
	parent := filepath.Join(dataDir, asideParent)
	entries, err := os.ReadDir(parent)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list data set aside: %w", err)
	}
	var all []*aside
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), asidePrefix) || !entry.IsDir() {
			continue
		}
		a := &aside{dir: filepath.Join(parent, entry.Name())}
		b, err := os.ReadFile(filepath.Join(a.dir, asideMarker))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(b, a)
		}
		if err != nil {
			return nil, fmt.Errorf("read marker of data set aside: %w; move %s away", err, a.dir)
		}
		all = append(all, a)
	}
	slices.SortStableFunc(all, func(x, y *aside) int { return x.Time.Compare(y.Time) })
	return all, nil
}

// lastAside is where the data went that was moved with the tag.
func lastAside(e Etcd, tag string) (string, error) {
	all, err := asides(e.DataDir)
	dir := ""
	for _, a := range all {
		if a.Tag == tag {
			dir = a.dir
		}
	}
	return dir, err
}

// newAside makes the directory and writes down what is going to be moved.
func newAside(e Etcd, tag string) (*aside, error) {
	parent := filepath.Join(e.DataDir, asideParent)
	if err := makeDir(parent, e); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	for i := 1; ; i++ {
		name := fmt.Sprintf("%s%s-%03d", asidePrefix, tag, i)
		a := &aside{Version: 1, Tag: tag, Data: e.DataDir, Time: time.Now().UTC(), dir: filepath.Join(parent, name)}
		if e.WALDir != "" && hasWAL(e.WALDir) {
			a.WAL, a.WALTo = e.WALDir, fmt.Sprintf("%s%s%s-%03d", e.WALDir, movedWAL, tag, i)
			if _, err := os.Lstat(a.WALTo); err == nil {
				continue
			}
		}
		err := makeDir(a.dir, e)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := a.write(); err != nil {
			return nil, err
		}
		return a, syncDirs(parent, e.DataDir)
	}
}

// makeDir makes a directory that belongs to whom the data directory belongs to.
func makeDir(dir string, e Etcd) error {
	interrupt()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("set data aside: %w", err)
	}
	return ownAs(dir, e.DataDir)
}

// write puts the marker in place, whole and synced.
func (a *aside) write() error {
	interrupt()
	b, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return fmt.Errorf("write marker: %w", err)
	}
	path := filepath.Join(a.dir, asideMarker)
	if err := writeSynced(path+".tmp", append(b, '\n')); err != nil {
		return err
	}
	if err := ownAs(path+".tmp", a.Data); err != nil {
		return err
	}
	interrupt()
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("write marker: %w", err)
	}
	return syncDirs(a.dir)
}

// move moves what is not moved yet. Each step is one rename, and none is done
// twice: what stands at its new place stays.
func (a *aside) move() error {
	if a.WAL != "" {
		if err := shift(a.WAL, a.WALTo); err != nil {
			return err
		}
		if err := syncDirs(filepath.Dir(a.WAL)); err != nil {
			return err
		}
	}
	parent := filepath.Dir(a.dir)
	edits, err := filepath.Glob(filepath.Join(parent, "wal-*"))
	if err != nil {
		return fmt.Errorf("set data aside: %w", err)
	}
	for _, edit := range edits {
		if err := shift(edit, filepath.Join(a.dir, filepath.Base(edit))); err != nil {
			return err
		}
	}
	if err := shift(filepath.Join(a.Data, "member"), filepath.Join(a.dir, "member")); err != nil {
		return err
	}
	if err := syncDirs(a.dir, parent, a.Data); err != nil {
		return err
	}
	a.Done = true
	return a.write()
}

// shift renames, unless that is done already.
func shift(from, to string) error {
	interrupt()
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// A file system without the flag; a directory that is there and not empty
		// is not replaced by a plain rename either.
		err = os.Rename(from, to)
	}
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.EBUSY):
		return refuse(Immovable, "have it on the file system of the directory that it is in, and no mount point itself", "%s cannot be renamed to %s: %v", from, to, err)
	}
	return fmt.Errorf("set data aside: rename %s to %s: %w", from, to, err)
}

// finishMoves completes a move that was cut short: what is left of it is no
// member's directory, and etcd must not start from it.
func finishMoves(e Etcd) error {
	all, err := asides(e.DataDir)
	if err != nil {
		return err
	}
	for _, a := range all {
		if a.Done {
			continue
		}
		if err := a.move(); err != nil {
			return err
		}
	}
	return nil
}

// Prune removes what SetAside moved away, but for the tags to keep. What others
// put there stays. It may be repeated, also when it was cut short.
func Prune(e Etcd, keep ...string) error {
	all, err := asides(e.DataDir)
	if err != nil {
		return err
	}
	for _, a := range all {
		if !a.Done || slices.Contains(keep, a.Tag) {
			continue
		}
		if err := a.remove(); err != nil {
			return err
		}
	}
	return nil
}

// remove takes the marker last, so that a second try finds the rest.
func (a *aside) remove() error {
	gone := []string{filepath.Join(a.dir, "member")}
	if a.WALTo != "" && strings.HasPrefix(a.WALTo, a.WAL+movedWAL) {
		gone = append(gone, a.WALTo)
	}
	edits, _ := filepath.Glob(filepath.Join(a.dir, "wal-*"))
	for _, path := range append(gone, edits...) {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove data set aside: %w", err)
		}
	}
	if err := os.Remove(filepath.Join(a.dir, asideMarker)); err != nil {
		return fmt.Errorf("remove data set aside: %w", err)
	}
	_ = os.Remove(filepath.Join(a.dir, asideMarker+".tmp"))
	// Not empty where others put something there.
	_ = os.Remove(a.dir)
	return nil
}

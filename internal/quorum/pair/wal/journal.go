package wal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// copies is where edits of a data directory leave their journals, beside
	// etcd's own "member".
	copies = "holdfast"
	// journalName is the journal in an edit's directory, tailName the copy.
	journalName = "journal.json"
	// keptTail is how much of the last segment is copied from before the place
	// of the edit. The edit changes none of it; it is there for whoever wants to
	// see what the log ended with. What the edit does change is copied whole.
	keptTail = 1 << 20
	// journalRoom is what the journal and the directories may take.
	journalRoom = 256 << 10
	// fileMode is etcd's own for what is in its directory, dirMode likewise.
	fileMode, dirMode = 0o600, 0o700
)

// State of an edit.
type journalState string

const (
	// prepared: the copy is safe, the log may or may not be changed.
	prepared journalState = "prepared"
	// done: the log is changed, and synced.
	done journalState = "done"
	// abandoned: the edit never took place, or etcd has gone on since.
	abandoned journalState = "abandoned"
)

// journal is what an edit writes before it touches the log. Nothing is redone
// from it: a repeated edit goes by what the log says. It tells an edit's own
// half-written bytes from damage, and a person how to undo.
type journal struct {
	Version int          `json:"version"`
	State   journalState `json:"state"`
	// Undo is a command for the shell. It is right only while etcd is stopped,
	// and has not been started since the edit.
	Undo     string     `json:"undo"`
	Cluster  ID         `json:"cluster"`
	Member   ID         `json:"member"`
	Segment  string     `json:"segment"`
	Offset   int64      `json:"offset"`
	Size     int64      `json:"size"` // of the segment before the edit
	Append   []byte     `json:"append"`
	Tail     string     `json:"tail"` // the copy; its first byte stood at TailFrom
	TailFrom int64      `json:"tail_from"`
	Last     Position   `json:"last"` // before the edit
	Term     uint64     `json:"term"`
	Commit   uint64     `json:"commit"`
	Removed  []Member   `json:"removed"`
	Began    time.Time  `json:"began"`
	Ended    *time.Time `json:"ended,omitempty"`

	dir string
}

// journals lists the edits of a data directory, oldest first, by the names of
// their directories. One that was killed before its journal was written left the log alone and is passed over.
func journals(data string) ([]*journal, error) {
	entries, err := os.ReadDir(filepath.Join(data, copies))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list journals: %w", err)
	}
	var all []*journal
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "wal-") {
			continue
		}
		dir := filepath.Join(data, copies, e.Name())
		b, err := os.ReadFile(filepath.Join(dir, journalName))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		j := &journal{dir: dir}
		if err == nil {
			err = json.Unmarshal(b, j)
		}
		if err != nil {
			return nil, fmt.Errorf("read journal %s: %w; move %s away", dir, err, dir)
		}
		all = append(all, j)
	}
	return all, nil
}

// newDir makes the directory of an edit that ends in term.
func newDir(data string, term uint64) (string, error) {
	parent := filepath.Join(data, copies)
	if err := os.Mkdir(parent, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make directory: %w", err)
	}
	for i := 1; ; i++ {
		dir := filepath.Join(parent, fmt.Sprintf("wal-%016x-%03d", term, i))
		err := os.Mkdir(dir, dirMode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("make directory: %w", err)
		}
		return dir, syncDirs(parent, data)
	}
}

// write puts the journal in place by rename, so that it is there whole or not.
func (j *journal) write() error {
	b, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	path := filepath.Join(j.dir, journalName)
	if err := writeSynced(path+".tmp", bytes.NewReader(append(b, '\n'))); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return syncDirs(j.dir)
}

func (j *journal) finish(s journalState) error {
	now := time.Now().UTC()
	j.State, j.Ended = s, &now
	return j.write()
}

func writeSynced(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDirs(dirs ...string) error {
	for _, dir := range dirs {
		f, err := os.Open(dir)
		if err != nil {
			return fmt.Errorf("sync directory: %w", err)
		}
		err = f.Sync()
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("sync directory: %w", err)
		}
	}
	return nil
}

// landed says whether the whole edit stands in the log.
func (j *journal) landed(s *scanned) bool {
	return j.Segment == s.tail.name && j.Offset+int64(len(j.Append)) <= s.end && j.matches(s, len(j.Append))
}

// owns says whether what stands behind the log's end is this edit's own, cut
// short by a crash: each sector has the edit's bytes or none.
func (j *journal) owns(s *scanned) bool {
	have := s.end - j.Offset
	if j.State != prepared || j.Segment != s.tail.name || have < 0 || have > int64(len(j.Append)) || !j.matches(s, int(have)) {
		return false
	}
	want, rest, at := j.Append[have:], s.rest, s.end
	if len(rest) > len(want) {
		return false
	}
	for len(rest) > 0 {
		n := min(len(rest), int(sector-at%sector))
		if !bytes.Equal(rest[:n], want[:n]) && !allZero(rest[:n]) {
			return false
		}
		rest, want, at = rest[n:], want[n:], at+int64(n)
	}
	return true
}

// matches says whether the first n bytes of the edit stand where they belong.
func (j *journal) matches(s *scanned, n int) bool {
	got := make([]byte, n)
	_, err := s.tail.file.ReadAt(got, j.Offset)
	return err == nil && bytes.Equal(got, j.Append[:n])
}

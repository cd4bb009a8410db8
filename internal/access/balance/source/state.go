package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/file"
)

const (
	// maxState bounds the file: a few sources of a thousand backends each.
	maxState = 4 << 20
	// saveAgain is the wait after a write that failed.
	saveAgain = 30 * time.Second
)

// state keeps the last good list in a file.
type state struct {
	path, name string
	log        *slog.Logger
	condition  *condition
	pending    chan []Listed // the newest list that is not written yet

	written []byte // what the file holds, as far as known; of run alone after load
}

// saved is the file's content.
type saved struct {
	Version int         `json:"version"`
	Name    string      `json:"frontend"`
	Sources []savedList `json:"sources"`
}

type savedList struct {
	Name     string         `json:"name"`
	Backends []savedBackend `json:"backends"`
}

// savedBackend is a Backend without what is not known after a restart.
type savedBackend struct {
	Network string `json:"network"`
	Address string `json:"address"`
	Zone    string `json:"zone,omitempty"`
	Node    string `json:"node,omitempty"`
	Name    string `json:"name,omitempty"`
	Weight  int    `json:"weight,omitempty"`
	Backup  bool   `json:"backup,omitempty"`
}

const stateVersion = 1

func newState(path, name string, log *slog.Logger) *state {
	return &state{
		path: path, name: name, log: log, pending: make(chan []Listed, 1),
		condition: newCondition("last good list", log),
	}
}

func (s *state) status() (Status, bool) {
	return s.condition.get(), s.path != ""
}

// load returns the lists in the file; none when it is missing or unusable.
func (s *state) load() []Listed {
	if s.path == "" {
		return nil
	}
	lists, data, err := readState(s.path, s.name)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // the first start
	}
	if err != nil {
		err = fmt.Errorf("%w; ignored, it is written anew once a source answers", err)
	}
	s.written = data
	s.condition.report(err)
	return lists
}

func readState(path, name string) ([]Listed, []byte, error) {
	data, err := file.Read(path, maxState)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, err
	case err != nil:
		return nil, nil, fmt.Errorf("state file: %w", err)
	}
	lists, err := decodeState(data, name)
	if err != nil {
		return nil, nil, fmt.Errorf("state file %s: %w", path, err)
	}
	return lists, data, nil
}

// decodeState reads the file's content. Entries are judged as a source's are.
func decodeState(data []byte, name string) ([]Listed, error) {
	var s saved
	switch err := json.Unmarshal(data, &s); {
	case len(data) > maxState:
		return nil, fmt.Errorf("larger than %d bytes", maxState)
	case err != nil:
		return nil, errors.New("truncated, or not written by this program")
	case s.Version != stateVersion:
		return nil, fmt.Errorf("version %d, not %d: written by another version", s.Version, stateVersion)
	case s.Name != name:
		return nil, fmt.Errorf("of frontend %q, not %q: the name changed, or two share a file", s.Name, name)
	}
	var lists []Listed
	for _, l := range s.Sources {
		var list []Backend
		for _, b := range l.Backends {
			list = append(list, Backend{
				Network: b.Network, Address: b.Address, Zone: b.Zone, Node: b.Node, Name: b.Name,
				Weight: b.Weight, Backup: b.Backup, Serving: true,
			})
		}
		// As of a discovery, whatever source it is: the file may be anybody's.
		if good, _ := (rules{}).vet(list); len(good) > 0 {
			lists = append(lists, Listed{l.Name, LastGood, good})
		}
	}
	return lists, nil
}

func encodeState(name string, lists []Listed) ([]byte, error) {
	s := saved{Version: stateVersion, Name: name, Sources: []savedList{}}
	for _, l := range lists {
		list := savedList{Name: l.Name}
		for _, b := range l.Backends {
			list.Backends = append(list.Backends, savedBackend{b.Network, b.Address, b.Zone, b.Node, b.Name, b.Weight, b.Backup})
		}
		s.Sources = append(s.Sources, list)
	}
	data, err := json.MarshalIndent(s, "", " ")
	return append(data, '\n'), err
}

// save hands lists to run and returns at once.
func (s *state) save(lists []Listed) {
	if s.path == "" || len(lists) == 0 {
		return
	}
	select { // an older list that is still waiting is of no use
	case <-s.pending:
	default:
	}
	select {
	case s.pending <- lists:
	default:
	}
}

// run writes what save hands over until ctx ends; then what is still waiting.
func (s *state) run(ctx context.Context) {
	var lists []Listed
	var again <-chan time.Time
	for {
		select {
		case lists = <-s.pending:
		case <-again:
		case <-ctx.Done():
			select {
			case lists = <-s.pending:
				s.write(lists)
			default:
			}
			return
		}
		again = nil
		if !s.write(lists) {
			again = time.After(saveAgain)
		}
	}
}

// write writes the file unless it holds the same already.
func (s *state) write(lists []Listed) bool {
	data, err := encodeState(s.name, lists)
	if err == nil && bytes.Equal(data, s.written) {
		s.condition.report(nil)
		return true
	}
	if err == nil {
		err = replaceFile(s.path, data)
	}
	if err != nil {
		err = fmt.Errorf("write state file: %w; balancing goes on, but after a restart the list will be old", err)
	} else {
		s.written = slices.Clone(data)
	}
	s.condition.report(err)
	return err == nil
}

// replaceFile writes path so that a crash leaves the old or the new content.
func replaceFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // fails after the rename
	if _, err = temp.Write(data); err == nil {
		err = temp.Sync()
	}
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes the rename last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

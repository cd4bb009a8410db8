package arbiter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/user"
	"path/filepath"

	"github.com/holdfast-ha/holdfast/internal/base/file"
)

// SeenFile is the file of an agent's state directory that has the newest record it saw.
const SeenFile = "record.json"

// ReadSeen reads the newest record that the agent of this machine saw.
func ReadSeen(stateDir string) (Record, error) {
	path := filepath.Join(stateDir, SeenFile)
	b, err := file.Read(path, MaxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, fmt.Errorf("state-dir: %s is not there; name the directory that the agent has, on the machine that saw the newest record", path)
	}
	if err != nil {
		return Record{}, fmt.Errorf("state-dir: %w", err)
	}
	r, err := Decode(b)
	if err != nil {
		return Record{}, fmt.Errorf("state-dir: %s: %w", path, err)
	}
	return r, nil
}

// Restore puts back the record seen, under the next generation, into an arbiter that knows
// less. A person asks for it who knows that seen is the newest that any of the two sites saw.
func Restore(ctx context.Context, s Store, seen Record, by string) (Record, error) {
	data, version, err := s.Read(ctx)
	if err != nil {
		return Record{}, fmt.Errorf("read %s: %w", s.Name(), err)
	}
	if version != "" {
		// What is no record, as after a disk was restored in parts, may be replaced.
		if now, err := Decode(data); err == nil {
			if err := behind(now, seen); err != nil {
				return Record{}, err
			}
		}
	}
	keep := func(Record) error { return nil }
	held, err := NewClient(s, by, Record{}, keep).Change(ctx, Held{Record: seen, version: version}, seen)
	return held.Record, err
}

// behind refuses a restore that is none.
func behind(now, seen Record) error {
	switch {
	case now.Cluster != seen.Cluster || !now.Has(seen.Members[0].Name) || !now.Has(seen.Members[1].Name):
		return fmt.Errorf("%w: it is of cluster %v, members %s and %s; correct the URL", ErrForeign, now.Cluster, now.Members[0].Name, now.Members[1].Name)
	case now.Generation >= seen.Generation:
		return fmt.Errorf("the arbiter has generation %d, and %d was seen here: nothing is missing, so nothing was restored", now.Generation, seen.Generation)
	}
	return nil
}

// person is who runs a command, for people who read the record later.
func person() string {
	if u, err := user.Current(); err == nil {
		return "a person (" + u.Username + ")"
	}
	return "a person"
}

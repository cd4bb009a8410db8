package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// KeysFile holds what the members of a pair had in the end.
const KeysFile = "keys.json"

// Keys is what the members of a pair had at the end of a run, by site.
type Keys map[string]MemberKeys

// MemberKeys are the keys of samples of kind write at one member, each with the
// revision of its last change.
type MemberKeys struct {
	// Error is why they could not be read; "" if they could.
	Error    string           `json:"error,omitempty"`
	Revision int64            `json:"revision"`
	Keys     map[string]int64 `json:"keys"`
}

// Keys writes the keys of a run.
func (w *Writer) Keys(k Keys) error {
	if err := writeJSON(filepath.Join(w.dir, KeysFile), k); err != nil {
		return fmt.Errorf("write keys: %w", err)
	}
	return nil
}

// loadKeys reads them; a run of other drills has none.
func (rec *Record) loadKeys(path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, &rec.Keys)
	}
	if err != nil {
		return fmt.Errorf("read keys %s: %w", path, err)
	}
	return nil
}

package supervise

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast-ha/holdfast/internal/base/file"
)

const (
	recordName = "child.json"
	lockName   = "child.lock"
	joinName   = "etcd-join.yaml"
	logName    = "etcd.log"
	// tokenName is the variable of etcd's environment by which a child is known.
	tokenName = "HOLDFAST_PAIR_CHILD"
)

// record is what an agent leaves for the next one about its child. It is
// written before the child is started, without a number, and again after.
type record struct {
	Version int `json:"version"`
	// Token is random, and in the child's environment.
	Token string `json:"token"`
	Boot  string `json:"boot"`
	// PID and Start, in ticks since boot, are 0 until the child is started.
	PID   int    `json:"pid,omitempty"`
	Start uint64 `json:"start,omitempty"`
	// DataDir is where the child keeps its data, Command how it was started.
	DataDir string   `json:"data_dir"`
	Command []string `json:"command"`
	Ended   *Ended   `json:"ended,omitempty"`
}

const recordVersion = 1

func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails, says crypto/rand
	return hex.EncodeToString(b[:])
}

func (r *record) mark() string { return tokenName + "=" + r.Token }

// readRecord is nil without a record, or with one of an earlier boot, whose
// processes are all gone. One that cannot be read counts as none: what its child
// may still run is kept apart by etcd's own lock.
func readRecord(stateDir string) (*record, error) {
	b, err := file.Read(filepath.Join(stateDir, recordName), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read record of the child: %w", err)
	}
	r := &record{}
	if err := json.Unmarshal(b, r); err != nil || r.Version != recordVersion || r.Token == "" || r.Boot != bootID() {
		return nil, nil
	}
	return r, nil
}

// write puts the record in place whole. It is not synced: it is of no use after
// the next boot.
func (r *record) write(stateDir string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write record of the child: %w", err)
	}
	return replace(filepath.Join(stateDir, recordName), append(b, '\n'))
}

// replace writes a file that is there whole or not.
func replace(path string, content []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, content, 0o600); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return nil
}

// adopt finds the child that the record is about, nil if it is gone.
func (r *record) adopt() *process {
	pid := r.PID
	if pid == 0 {
		// The agent ended between the two writes.
		var ok bool
		if pid, ok = find(r.mark()); !ok {
			return nil
		}
	}
	p, err := identify(pid, r.Start)
	if err != nil {
		return nil
	}
	// One that is just ending has no environment left, and still its files.
	if env, known := environment(p.pid); known && !slices.Contains(env, r.mark()) {
		p.close()
		return nil
	}
	r.PID, r.Start = p.pid, p.start
	return p
}

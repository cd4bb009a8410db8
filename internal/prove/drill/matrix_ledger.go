package drill

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// ledgerFile says what a matrix is, from its beginning on.
const ledgerFile = "plan.json"

// ledger is what a later sitting has to agree with.
type ledger struct {
	Version int       `json:"version"`
	Mode    string    `json:"mode"`
	Runs    []string  `json:"runs"`
	Started time.Time `json:"started"`
	// LastedMS is how long all sittings took that have ended.
	LastedMS   float64 `json:"lasted_ms"`
	Peer       string  `json:"peer,omitempty"`
	Kubernetes string  `json:"kubernetes,omitempty"`
}

func (o MatrixOptions) mode() string {
	if o.Full {
		return "full"
	}
	return "quick"
}

// open makes the directory, or goes on in one that belongs to the same matrix.
func (o MatrixOptions) open(jobs []job) (*ledger, error) {
	l := &ledger{Version: 1, Mode: o.mode(), Started: time.Now().UTC(), Peer: o.Peer, Kubernetes: o.Kubernetes}
	for _, j := range jobs {
		l.Runs = append(l.Runs, j.String())
	}
	entries, err := os.ReadDir(o.Out)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := os.MkdirAll(o.Out, 0o755); err != nil {
			return nil, fmt.Errorf("--out: %w; choose another directory", err)
		}
	case err != nil:
		return nil, fmt.Errorf("--out: %w; choose another directory", err)
	case len(entries) > 0 && !o.Resume:
		return nil, fmt.Errorf("--out: %s is not empty; choose another directory, or go on with --resume", o.Out)
	case len(entries) > 0:
		return o.resume(l)
	}
	return l, l.write(o.Out)
}

// resume reads the ledger of an earlier sitting and compares it.
func (o MatrixOptions) resume(want *ledger) (*ledger, error) {
	data, err := os.ReadFile(filepath.Join(o.Out, ledgerFile))
	if err != nil {
		return nil, fmt.Errorf("--resume: %s holds no matrix (%s is missing); choose the --out of one that was interrupted", o.Out, ledgerFile)
	}
	var l ledger
	if err := json.Unmarshal(data, &l); err != nil || l.Version != want.Version {
		return nil, fmt.Errorf("--resume: %s is not that of a matrix of this program; begin anew in another --out", filepath.Join(o.Out, ledgerFile))
	}
	if l.Mode != want.Mode || l.Peer != want.Peer || l.Kubernetes != want.Kubernetes || !slices.Equal(l.Runs, want.Runs) {
		return nil, fmt.Errorf("--resume: %s holds another matrix (%s, %d runs; asked for: %s, %d runs); give the same names and flags, or another --out", o.Out, l.Mode, len(l.Runs), want.Mode, len(want.Runs))
	}
	return &l, nil
}

func (l *ledger) write(dir string) error {
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	file := filepath.Join(dir, ledgerFile)
	if err := os.WriteFile(file+".tmp", append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("--out: %w; choose another directory", err)
	}
	if err := os.Rename(file+".tmp", file); err != nil {
		return fmt.Errorf("--out: %w; choose another directory", err)
	}
	return nil
}

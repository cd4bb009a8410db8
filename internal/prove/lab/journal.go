package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// journalFile is where the run directory keeps the journal.
const journalFile = "commands.log"

// journal records every change before it is made.
type journal struct {
	mu      sync.Mutex
	file    *os.File
	entries []string
}

func openJournal(dir string) (*journal, error) {
	f, err := os.OpenFile(filepath.Join(dir, journalFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return &journal{file: f}, nil
}

// write adds an entry. A change is made even when the disk is full: the entry
// is then kept in memory only.
func (j *journal) write(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	entry := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z ") + fmt.Sprintf(format, args...)
	j.entries = append(j.entries, entry)
	_, _ = fmt.Fprintln(j.file, entry)
}

func (j *journal) list() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.entries)
}

func (j *journal) close() { _ = j.file.Close() }

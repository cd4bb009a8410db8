package pair

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
)

func TestMemoryKeepsTheNewestRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	m, err := openMemory(dir)
	if err != nil {
		t.Fatal(err)
	}
	if seen, err := readSeen(dir); err != nil || seen != (arbiter.Record{}) {
		t.Fatalf("%+v, %v from an empty directory", seen, err)
	}
	for _, r := range []arbiter.Record{pairedRecord(), soloRecord("b", true)} {
		if err := m.keep(r); err != nil {
			t.Fatal(err)
		}
		if seen, err := readSeen(dir); err != nil || seen != r {
			t.Fatalf("%+v, %v, want %+v", seen, err, r)
		}
	}
	if _, err := openMemory(dir); !errors.Is(err, errSecond) {
		t.Errorf("a second agent got %v", err)
	}
	m.close()
	m, err = openMemory(dir)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	m.close()
}

// TestDamagedMemoryIsRefused: to go on without it would believe an arbiter that has gone back.
func TestDamagedMemoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"", "{", `{"version":2}`, strings.Repeat("x", arbiter.MaxRecord+1)} {
		if err := os.WriteFile(filepath.Join(dir, recordFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readSeen(dir); err == nil {
			t.Errorf("%.20q was taken for a record", text)
		}
	}
}

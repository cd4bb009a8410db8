package pair

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReceivedLooksAtWhatEtcdWrites(t *testing.T) {
	dir := t.TempDir()
	if got := received(dir); got != 0 {
		t.Errorf("%d bytes in no directory", got)
	}
	snap := filepath.Join(dir, "member", "snap")
	if err := os.MkdirAll(snap, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"db": 900, "tmp123": 40, "0000000000000003.snap.db": 70} {
		if err := os.WriteFile(filepath.Join(snap, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := received(dir); got != 70 {
		t.Errorf("%d bytes, want 70", got)
	}
}

package pair

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestDiskThatTakesNoWriteKeepsFromClaiming(t *testing.T) {
	var d disk
	dir := t.TempDir()
	if err := d.takes(dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Fatalf("left %v, %v", left, err)
	}
	if err := d.takes(filepath.Join(dir, "absent")); err == nil {
		t.Error("a directory that is not there took a write")
	}
	d.waiting.Store(true) // as one that hangs leaves it
	if err := d.takes(dir); !errors.Is(err, errHangs) {
		t.Errorf("%v while a write hangs", err)
	}
}

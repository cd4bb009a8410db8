package pair

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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
	for _, dirs := range [][]string{{filepath.Join(dir, "absent")}, {dir, "", filepath.Join(dir, "absent")}} {
		if err := d.takes(dirs...); err == nil || !strings.Contains(err.Error(), "absent takes no write: make room") {
			t.Errorf("%v of a directory that is not there", err)
		}
	}
	d.waiting.Store(true) // as one that hangs leaves it
	if err := d.takes(dir); !errors.Is(err, errHangs) {
		t.Errorf("%v while a write hangs", err)
	}
}

package supervise

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestRoomNamesTheDirectoryThatIsFull(t *testing.T) {
	dir := t.TempDir()
	if err := Room(Etcd{DataDir: dir, WALDir: dir}, 1); err != nil {
		t.Error(err)
	}
	for _, e := range []Etcd{{DataDir: dir}, {DataDir: "/absent", WALDir: dir}} {
		var r *Refusal
		err := Room(e, math.MaxUint64)
		if !errors.As(err, &r) || r.Reason != NoSpace || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "make room") {
			t.Errorf("%v, want %s of %s", err, NoSpace, dir)
		}
	}
}

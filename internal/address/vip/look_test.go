package vip

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/health"
)

func TestLook(t *testing.T) {
	dir := t.TempDir()
	process := func(pid, name, state string) {
		at := filepath.Join(dir, pid)
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"comm": name + "\n", "stat": pid + " (" + name + ") " + state + " 1 2 3"} {
			if err := os.WriteFile(filepath.Join(at, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	process("7", "odd) Z name", "S")
	process("8", "zombie", "Z")
	process("9", "haproxy", "R")
	for name, want := range map[string]bool{"haproxy": true, "odd) Z name": true, "zombie": false, "hapro": false} {
		l := &look{kind: kindProcess, what: name}
		if got := l.runs(dir); got != want || got != l.runs(dir) {
			t.Errorf("process %q: %t", name, got)
		}
	}
	l := &look{kind: kindProcess, what: "haproxy"}
	l.runs(dir)
	process("9", "haproxy", "Z")
	if l.runs(dir) {
		t.Error("a process that was found once and is dead now")
	}
	process("10", "haproxy", "S")
	if !l.runs(dir) {
		t.Error("another process of that name")
	}

	file := filepath.Join(dir, "file")
	for _, want := range []health.Grade{health.NotReady, health.Ready} {
		if r := (&look{kind: kindFile, what: file}).Probe(t.Context(), true); r.Grade != want {
			t.Errorf("file: %+v", r)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if r := (&look{kind: kindCarrier, what: "none0"}).Probe(t.Context(), true); r.Grade != health.NotReady || !strings.Contains(r.Reason, "no interface none0") {
		t.Errorf("carrier: %+v", r)
	}
	if r := (&look{kind: kindCarrier, what: "lo"}).Probe(t.Context(), true); r.Grade != health.Ready {
		t.Errorf("carrier of lo: %+v", r)
	}
}

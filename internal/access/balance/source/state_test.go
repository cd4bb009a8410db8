package source

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStateIgnoresWhatIsNotItsOwn(t *testing.T) {
	good, err := encodeState("test", []Listed{{"one", Confirmed, bs("10.0.0.1", "10.0.0.2")}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ in, want string }{
		"good":            {string(good), ""},
		"empty":           {"", "truncated"},
		"truncated":       {string(good[:len(good)/2]), "truncated"},
		"binary":          {"\x00\x01\x02", "truncated"},
		"another version": {`{"version":7}`, "another version"},
		"another name":    {`{"version":1,"frontend":"other"}`, `of frontend "other"`},
		"huge":            {strings.Repeat(" ", maxState+1), "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.json")
			if err := os.WriteFile(path, []byte(c.in), 0o600); err != nil {
				t.Fatal(err)
			}
			s := newState(path, "test", slog.New(slog.DiscardHandler))
			lists := s.load()
			status, _ := s.status()
			if (c.want == "") != (len(lists) == 1) || (c.want == "") != status.OK || !strings.Contains(status.Error, c.want) || strings.Contains(status.Error, "\n") {
				t.Errorf("%v, %+v", lists, status)
			}
			// Whatever stood there is replaced by what is known now.
			if !s.write([]Listed{{"one", Confirmed, bs("10.0.0.3")}}) {
				t.Fatalf("not written: %+v", s.condition.get())
			}
			if again := newState(path, "test", slog.New(slog.DiscardHandler)).load(); len(again) != 1 || ids(again[0].Backends)[0] != "10.0.0.3:6443" {
				t.Errorf("read back %v", again)
			}
			if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
				t.Errorf("left behind %v", left)
			}
		})
	}
}

func TestStateIsWrittenOnlyWhenItChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.json")
	s := newState(path, "test", slog.New(slog.DiscardHandler))
	lists := []Listed{{"one", Confirmed, bs("10.0.0.1")}}
	s.write(lists)
	first, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	s.write(lists)
	next := newState(path, "test", slog.New(slog.DiscardHandler))
	next.load()
	next.write(lists)
	if second, _ := os.Stat(path); !os.SameFile(first, second) {
		t.Error("written again")
	}
}

// FuzzDecodeState checks that no file panics, and that every backend read from
// one is as good as one from a source.
func FuzzDecodeState(f *testing.F) {
	good, _ := encodeState("test", []Listed{{"one", Confirmed, bs("10.0.0.1 zone=a", "10.0.0.2 backup")}})
	f.Add(string(good))
	f.Add(string(good[:40]))
	f.Add(`{"version":1,"frontend":"test","sources":[{"name":"x","backends":[{"network":"unix","address":"/x"},{"address":"127.0.0.1:1"},{"weight":-1}]}]}`)
	f.Add("[]")
	f.Fuzz(func(t *testing.T, in string) {
		lists, err := decodeState([]byte(in), "test")
		if err != nil {
			if len(lists) > 0 || strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%v with %q", lists, err)
			}
			return
		}
		for _, l := range lists {
			if _, reasons := (rules{}).vet(l.Backends); len(reasons) > 0 || l.Standing != LastGood {
				t.Fatalf("%v: %q", l, reasons)
			}
		}
	})
}

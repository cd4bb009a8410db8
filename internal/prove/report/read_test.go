package report

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestReadBackWhatWasWritten(t *testing.T) {
	want, err := os.ReadFile("testdata/report.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Read(bytes.NewReader(want))
	if err != nil {
		t.Fatal(err)
	}
	if got := render(t, r, FormatJSON); got != string(want) {
		t.Error("report.json changes when it is read and written again")
	}
}

func TestReadRefuses(t *testing.T) {
	for in, want := range map[string]string{
		`{"version":2,"verdict":{}}`:              "version is 2, this program reads 1",
		`{"verdict":"pass"}`:                      `"version" is missing`,
		`{"version":1,"verdict":"great"}`:         `verdict is "great": want pass`,
		`{"version":1}`:                           `verdict is ""`,
		`{"version":1,"verdict":"pass"} {}`:       "after top-level value",
		`{"version":1,"verdict":"pass","with":1}`: "with",
		`{"version":1,"verdict":"pass","variants":[{"name":"x","verdict":"no"}]}`:              `variant "x" is "no"`,
		`{"version":1,"verdict":"pass","with":{"verdict":"pass","paths":[{"verdict":"hmm"}]}}`: `"hmm"`,
		``: "unexpected end",
	} {
		_, err := Read(strings.NewReader(in))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Read(%s) = %v, want %q", in, err, want)
		}
	}
	if _, err := Read(strings.NewReader(`{"version":9}`)); !errors.Is(err, ErrVersion) {
		t.Errorf("want ErrVersion, got %v", err)
	}
}

// small is a report with one path and little else, for the fuzzers: what they
// take apart must be quick to render.
func small() *Report {
	r := demo()
	for _, run := range []*Run{r.With, r.Without} {
		run.Paths = run.Paths[8:9]
		run.Phases = nil
	}
	r.Paths, r.Variants, r.Environment = nil, nil, nil
	return r
}

// FuzzRead: whatever Read accepts survives another round, and can be shown.
func FuzzRead(f *testing.F) {
	var buf bytes.Buffer
	if err := Encode(&buf, small()); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Add([]byte(`{"version":1,"verdict":"pass"}`))
	f.Add([]byte(`{"version":1,"verdict":"fail","with":{"verdict":"pass","recovered":true,"faults":[{"from_ms":-1e308,"to_ms":1e308}],"events":[{"at_ms":1e300,"kind":"move"}],` +
		`"paths":[{"name":"p","verdict":"pass","outages":[{"from_ms":9e99,"to_ms":-9e99,"upper_ms":1e308}],"strip":[{"from_ms":5,"to_ms":-5,"class":"?"}],"expected":{"max_ms":-1}}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		first := render(t, r, FormatJSON)
		again, err := Read(strings.NewReader(first))
		if err != nil {
			t.Fatalf("own report refused: %v", err)
		}
		if second := render(t, again, FormatJSON); first != second {
			t.Fatal("a second round changes the report")
		}
		if len(data) > 8<<10 {
			return // the larger ones take the fuzzer's time and show no more
		}
		for _, format := range Formats {
			out := render(t, r, format)
			if format == FormatSVG || format == FormatSummary || format == FormatJUnit {
				if err := wellFormed(out); err != nil {
					t.Fatalf("%s: %v", format, err)
				}
			}
		}
	})
}

func TestDirectoryWritesAllFilesWhole(t *testing.T) {
	d := Directory{Path: filepath.Join(t.TempDir(), "new", "run")}
	for range 2 { // the second time over the first
		if err := d.Write(demo()); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(renderings) {
		t.Errorf("%d files, want %d and no temporary one: %v", len(entries), len(renderings), entries)
	}
	r, err := d.Read()
	if err != nil || r.Scenario != "partial-split" {
		t.Errorf("Read() = %v, %v", r, err)
	}
}

func TestDirectoryErrorsNameTheRemedy(t *testing.T) {
	if _, err := (Directory{Path: t.TempDir()}).Read(); err == nil || !strings.Contains(err.Error(), "has no report.json") {
		t.Errorf("Read of an empty directory: %v", err)
	}
	full := &os.PathError{Op: "write", Path: "/run/x/.report.html.1", Err: syscall.ENOSPC}
	if err := explain(full, "/run/x"); !strings.Contains(err.Error(), "the disk of /run/x is full: free some space") || strings.Contains(err.Error(), "\n") {
		t.Errorf("full disk: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (Directory{Path: file}).Write(demo()); err == nil {
		t.Error("a directory that is a file was accepted")
	}
}

package haproxy

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the golden files")

// TestImport compares settings and notes with golden files beside the sample.
func TestImport(t *testing.T) {
	samples, err := filepath.Glob("testdata/*.cfg")
	if err != nil || len(samples) == 0 {
		t.Fatal(err, samples)
	}
	for _, path := range samples {
		t.Run(filepath.Base(path), func(t *testing.T) {
			in, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			settings, notes, err := Import(bytes.NewReader(in), "haproxy.cfg")
			if err != nil {
				notes = append(notes, "error: "+err.Error())
			}
			base := strings.TrimSuffix(path, ".cfg")
			golden(t, base+".yaml", settings)
			golden(t, base+".notes", []byte(strings.Join(notes, "\n")+"\n"))
		})
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("differs from %s; run with -update and look at the difference:\n%s", path, got)
	}
}

func TestImportRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", "x.cfg: no frontend in mode tcp with a listener and a server that can be carried over; the notes say why"},
		{"something else", "apiVersion: v1\n", `x.cfg:1: "apiVersion:" stands before any section; is this a haproxy.cfg?`},
		{"open quote", "global\n log \"x\n", `x.cfg:2: a quote " is not closed; close it on the same line`},
		{"open escape", "global\n log x\\", `x.cfg:2: \ at the end of the line; remove it`},
		{"binary", "listen x\n\x80\n", `x.cfg:2: not text in UTF-8; is this a haproxy.cfg?`},
		{"too large", "#" + strings.Repeat(" ", maxSize), "x.cfg: larger than 1048576 bytes; is this the right file?"},
		{"many lines", strings.Repeat("\n", maxSize+1), "x.cfg: larger than 1048576 bytes; is this the right file?"},
	} {
		settings, _, err := Import(strings.NewReader(c.in), "x.cfg")
		if err == nil || err.Error() != c.want || settings != nil {
			t.Errorf("%s: %s, %v", c.name, settings, err)
		}
	}
}

func TestSplit(t *testing.T) {
	for in, want := range map[string][]string{
		``:                          nil,
		`  # all`:                   nil,
		`a  b	c#d`:                  {"a", "b", "c"},
		`a\ b \# 'c "d' "e 'f" g""`: {"a b", "#", `c "d`, "e 'f", "g"},
		`"" '\n' "\n\"" \\`:         {"", `\n`, "\n\"", `\`},
		"a\r":                       {"a"},
	} {
		if l, err := split(in); err != nil || !slices.Equal(l.words, want) {
			t.Errorf("%q: %q, %v", in, l.words, err)
		}
	}
}

func TestDuration(t *testing.T) {
	for in, want := range map[string]string{
		"900": "900ms", "5s": "5s", "90m": "1h30m", "1h": "1h", "1d": "24h", "50us": "50µs", "0": "0s", "60m": "1h", "61s": "1m1s",
		"": "error", "s": "error", "5x": "error", "-1s": "error", "99999999999999999999": "error", "25d": "error",
	} {
		got := "error"
		if d, err := duration(in); err == nil {
			got = short(d)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

// FuzzImport checks that no file panics, that what comes out is YAML with
// frontends, the same each time, and that notes and errors are single lines
// with the name.
func FuzzImport(f *testing.F) {
	samples, _ := filepath.Glob("testdata/*.cfg")
	for _, path := range samples {
		if in, err := os.ReadFile(path); err == nil {
			f.Add(string(in))
		}
	}
	f.Add("listen x\n bind :1 ssl\n server a 1.2.3.4 ssl check\n")
	f.Add("listen \"x\\n: y\"\n bind unix@/a,/b accept-proxy\n bind :1\n server a 1.2.3.4:1\n")
	f.Add("defaults from from\nlisten x from\nserver\nbind\noption\nbalance\nhttp-check\ntimeout\n")
	f.Fuzz(func(t *testing.T, in string) {
		settings, notes, err := Import(strings.NewReader(in), "x.cfg")
		if err != nil {
			notes = append(notes, err.Error())
		}
		for _, n := range notes {
			if !strings.HasPrefix(n, "x.cfg:") || strings.ContainsAny(n, "\n\r") {
				t.Fatalf("note %q", n)
			}
		}
		if err != nil {
			return
		}
		var s struct {
			Frontends []struct {
				Name     string
				Listen   []string
				Backends struct{ Static []struct{ Address string } }
			}
		}
		if err := yaml.Unmarshal(settings, &s); err != nil || len(s.Frontends) == 0 {
			t.Fatalf("%v\n%s", err, settings)
		}
		for _, f := range s.Frontends {
			if f.Name == "" || len(f.Listen) == 0 || len(f.Backends.Static) == 0 {
				t.Fatalf("%+v\n%s", f, settings)
			}
		}
		again, _, _ := Import(strings.NewReader(in), "x.cfg")
		if !bytes.Equal(settings, again) {
			t.Fatal("another result the second time")
		}
	})
}

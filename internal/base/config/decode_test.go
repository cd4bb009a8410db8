package config

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

type probeSettings struct {
	Interval time.Duration     `yaml:"interval"`
	Rise     int               `yaml:"rise"`
	Share    float64           `yaml:"share"`
	On       bool              `yaml:"on"`
	Labels   map[string]string `yaml:"labels"`
}

type common struct {
	Name string `yaml:"name"`
}

type settings struct {
	common  `yaml:",inline"`
	Settle  time.Duration    `yaml:"settle"`
	Probe   probeSettings    `yaml:"probe"`
	Zones   []string         `yaml:"zones"`
	Members []*probeSettings `yaml:"members"`
	Stamp   time.Time        `yaml:"stamp"`
	Port    uint16
}

func TestDecode(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", ""},
		{"comment only", "# nothing\n", ""},
		{"good", "name: x\nsettle: 3s\nprobe: {interval: 500ms, rise: 2, share: 1, on: yes}\nzones: [a, b]\nport: 80\n", ""},
		{"merge", "members:\n- &m {rise: 1}\n- <<: *m\n  rise: 2\n", ""},
		{"null keeps the default", "settle:\n", ""},
		{"unknown", "settle: 3s\nsetle: 4s\n", `f.yaml:2: field "setle": unknown; did you mean "settle"?`},
		{"unknown nested", "probe:\n  colour: red\n", `f.yaml:2: field "probe.colour": unknown; known here: interval, labels, on, rise, share`},
		{"unknown in list", "members:\n- rise: 1\n- raise: 1\n", `f.yaml:3: field "members[1].raise": unknown; did you mean "rise"?`},
		{"twice", "name: a\nport: 1\nname: b\n", `f.yaml:3: field "name": given twice, first on line 1; keep one`},
		{"twice in map", "probe:\n  labels:\n    x: a\n    x: b\n", `f.yaml:4: field "probe.labels.x": given twice, first on line 3; keep one`},
		{"duration without unit", "settle: 3\n", `f.yaml:1: field "settle": value "3" is not a duration; write 3s`},
		{"duration of letters", "settle: soon\n", `f.yaml:1: field "settle": value "soon" is not a duration; write a number with its unit, such as 3s or 500ms`},
		{"wrong int", "probe: {rise: two}\n", `f.yaml:1: field "probe.rise": value "two" is not a whole number that fits the field; write digits only`},
		{"negative uint", "port: -1\n", `f.yaml:1: field "port": value "-1" is not a whole number from 0 up that fits the field; write digits only`},
		{"wrong bool", "probe: {on: perhaps}\n", `f.yaml:1: field "probe.on": value "perhaps" is not a truth value; write true or false`},
		{"list for text", "name: [a]\n", `f.yaml:1: field "name": a list is not a text; write it in quotes`},
		{"text for list", "zones: a\n", `f.yaml:1: field "zones": value "a" is not a list; write "- item" lines below it`},
		{"text for mapping", "probe: a\n", `f.yaml:1: field "probe": value "a" is not a mapping; write "key: value" lines below it`},
		{"list for document", "- a\n", `f.yaml:1: document: a list is not a mapping; write "key: value" lines below it`},
		{"bad time", "stamp: yesterday\n", `f.yaml:1: field "stamp": value "yesterday" is not a valid time: parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"`},
		{"two documents", "name: a\n---\nname: b\n", `f.yaml:2: a second document starts here; keep one document per file`},
		{"syntax", "name: a\n b: [\n", `f.yaml:2: `},
		{"too large", strings.Repeat("#", maxSize+1), `f.yaml: larger than 1048576 bytes; is this the right file?`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			var s settings
			if err := Decode(strings.NewReader(c.in), "f.yaml", &s); err != nil {
				got = err.Error()
			}
			exact := !strings.HasSuffix(c.want, ": ")
			if exact && got != c.want || !strings.HasPrefix(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestDecodeKeepsDefaults(t *testing.T) {
	s := settings{Settle: time.Second, Zones: []string{"a"}}
	if err := Decode(strings.NewReader("settle: 3s\n"), "f.yaml", &s); err != nil {
		t.Fatal(err)
	}
	if s.Settle != 3*time.Second || len(s.Zones) != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestLoadNamesMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.yaml")
	err := Load(path, &settings{})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

// FuzzDecode checks that no input panics or hangs, that an error is one line
// carrying the name, and that a second reading agrees with the first.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"", "a: &a [*a]\n", "settle: 3s\nprobe: {rise: 1}\n", "members: [{rise: x}]\n", "<<: [1]\n",
		"probe: &p\n  labels: {a: b}\nmembers: [*p]\n", "name: a\n---\n", "? [a]\n: b\n", "port: 70000\n", "name: !!binary x\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var a, b settings
		err := Decode(strings.NewReader(in), "f.yaml", &a)
		if err == nil {
			if err := Decode(strings.NewReader(in), "f.yaml", &b); err != nil {
				t.Fatalf("second reading: %v", err)
			}
			return
		}
		if text := err.Error(); !strings.HasPrefix(text, "f.yaml:") || strings.ContainsAny(text, "\n\r") {
			t.Fatalf("not one line with the name: %q", text)
		}
	})
}

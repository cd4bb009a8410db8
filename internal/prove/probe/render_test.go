package probe

import (
	"bytes"
	"flag"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("%s differs (%v); run go test -update and read the diff. Got:\n%s", file, err, got)
	}
}

// sampleBoard is a board on which much has happened.
func sampleBoard() (*Board, []Sample) {
	series1 := map[string]string{
		"b/etcd/put/new":         "ooooooooooottttttttttttooooooooooooooo",
		"b/etcd/put/reused":      "ooooosoooooooooooooooooooooooooooooooo",
		"b/etcd/watch/stream":    "ooooooooorrrrrrrrrrrrrrrrrrrrrrrrrrrrr",
		"b/apiserver/http/new":   "oorooroooortooooooooooooooooooooooooo",
		"b/a-long-name/http/new": "",
		ControlPath:              "oooooooooooooooooooooooooooooooooooooo",
	}
	var paths []Path
	var samples []Sample
	for _, name := range []string{"b/etcd/put/new", "b/etcd/put/reused", "b/etcd/watch/stream", "b/apiserver/http/new", "b/a-long-name/http/new", ControlPath} {
		p := Path{Name: name, URL: &url.URL{Scheme: "etcd", Host: "10.77.2.11:2379"}, Kind: KindPut, Mode: ModeNew,
			Slow: time.Second, Control: name == ControlPath}
		if strings.Contains(name, "http") {
			p.Kind, p.URL.Scheme, p.Labels = KindHTTP, "https", map[string]string{"site": "b"}
		}
		paths = append(paths, p)
		samples = append(samples, series(name, series1[name])...)
	}
	return NewBoard(paths, 10), samples
}

func TestRenderings(t *testing.T) {
	board, samples := sampleBoard()
	var changes, table, once, document bytes.Buffer
	view := &lines{&changes}
	for _, s := range samples {
		view.show(board.Add(s), s)
	}
	golden(t, "changes.txt", changes.String())
	if err := writeTable(&table, board, false); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.txt", table.String())
	if err := writeTable(&once, board, true); err != nil {
		t.Fatal(err)
	}
	golden(t, "once.txt", once.String())
	if err := writeDocument(&document, board); err != nil {
		t.Fatal(err)
	}
	golden(t, "document.json", document.String())
	live := []string{"120 columns, end known"}
	live = append(live, board.render(12345*time.Millisecond, time.Minute, 120, 24)...)
	live = append(live, "60 columns, 4 lines, no end")
	live = append(live, board.render(12345*time.Millisecond, 0, 60, 4)...)
	golden(t, "live.txt", strings.Join(live, "\n")+"\n")
}

func TestLiveViewFitsTheTerminal(t *testing.T) {
	board, samples := sampleBoard()
	for _, s := range samples {
		board.Add(s)
	}
	for width := 1; width < 200; width += 7 {
		for height := 2; height < 12; height++ {
			picture := board.render(time.Second, time.Minute, width, height)
			if len(picture) > height {
				t.Fatalf("%d lines of %d", len(picture), height)
			}
			for _, line := range picture {
				if n := len([]rune(line)); n > width {
					t.Fatalf("%d columns of %d: %s", n, width, line)
				}
			}
		}
	}
}

// The prober doubts itself before it blames a path.
func TestStarved(t *testing.T) {
	paths := []Path{{Name: "p", Slow: time.Second}, {Name: ControlPath, Slow: time.Second, Control: true}}
	late := series("p", "o")
	late[0].Sent = late[0].Scheduled.Add(LagLimit + time.Millisecond)
	missing := series("p", "ooo")
	for _, c := range []struct {
		samples []Sample
		want    string
	}{
		{append(series("p", "ottt"), series(ControlPath, "oooo")...), ""},
		{append(series("p", "oooo"), series(ControlPath, "ooto")...), "own loopback failed 1 of 4 times"},
		{late, "a sample of p was sent 501ms late (limit 500ms)"},
		{[]Sample{missing[0], missing[2]}, "1 tick of p lost"},
	} {
		board := NewBoard(paths, 0)
		for _, s := range c.samples {
			board.Add(s)
		}
		got := board.Starved()
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

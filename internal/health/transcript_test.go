package health

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// TestTranscripts runs the scenarios of testdata: a comment, a script, and
// after the line "---" what happened, which -update writes.
func TestTranscripts(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			script, want, _ := strings.Cut(string(data), "---\n")
			w, until := stage(t, script)
			w.run(until)
			got := w.transcript()
			if *update {
				if err := os.WriteFile(name, []byte(script+"---\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("it went another way; type: go test ./internal/health -run Transcripts -update\n%s", got)
			}
		})
	}
}

// stage reads a script:
//
//	timers default|seed|anchors
//	phase 0.5
//	rtt 1ms
//	answer 3ms
//	at 5s MODE
//	at 5s evidence KIND
//	until 10s
func stage(t *testing.T, script string) (*world, time.Duration) {
	t.Helper()
	s := server{rtt: ms, answer: steady(3 * ms)}
	timers, phase, until := Default(), 0.5, time.Duration(0)
	var signs []happening
	for l := range strings.Lines(script) {
		f := strings.Fields(l)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		var err error
		switch f[0] {
		case "timers":
			timers = map[string]Timers{"default": Default(), "seed": Seed(), "anchors": Anchors()}[f[1]]
		case "phase":
			phase, err = strconv.ParseFloat(f[1], 64)
		case "rtt":
			s.rtt, err = time.ParseDuration(f[1])
		case "answer":
			var d time.Duration
			d, err = time.ParseDuration(f[1])
			s.answer = steady(d)
		case "until":
			until, err = time.ParseDuration(f[1])
		case "at":
			err = s.happens(f[1:], &signs)
		default:
			err = fmt.Errorf("%q", f[0])
		}
		if err != nil {
			t.Fatalf("script line %q: %v", strings.TrimSpace(l), err)
		}
	}
	w := newWorld(t, timers, phase, s)
	for _, h := range signs {
		w.queue = append(w.queue, happening{at: h.at, then: func() {
			w.logf("evidence: %s", h.event)
			w.judge.Step(w.now, h.event)
		}})
	}
	return w, until
}

// happens reads what follows "at".
func (s *server) happens(f []string, signs *[]happening) error {
	at, err := time.ParseDuration(f[0])
	if err != nil {
		return err
	}
	if f[1] == "evidence" {
		kinds := []string{"dial-refused", "dial-timeout", "reset-early", "silent", "unacked"}
		i := slices.Index(kinds, f[2])
		if i < 0 {
			return fmt.Errorf("not one of %q", kinds)
		}
		*signs = append(*signs, happening{at: at, event: Evidence(i)})
		return nil
	}
	i := slices.Index(modeNames, f[1])
	if i < 0 {
		return fmt.Errorf("not one of %q", modeNames)
	}
	s.segments = append(s.segments, segment{at, mode(i)})
	return nil
}

package sim

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// TestTranscripts plays every testdata/*.txt. A transcript is blocks of
// commands, each followed by a line of dashes and what then happened; delays
// are the middle of their ranges, so it reads the same every time. With
// -update the answers are written anew, but a broken invariant still fails.
func TestTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(text) {
				t.Errorf("the transcript reads differently now; run with -update and look at the difference:\n%s", got)
			}
		})
	}
}

// script is a transcript being played.
type script struct {
	t    *testing.T
	w    *World
	out  strings.Builder
	zero time.Duration // times are told from here
}

// play runs the commands of a transcript and returns it with their answers.
func play(t *testing.T, text string) string {
	s := &script{t: t, w: NewWorld()}
	s.w.Trace = func(at time.Duration, line string) {
		fmt.Fprintf(&s.out, "%8.2fs  %s\n", (at - s.zero).Seconds(), line)
	}
	answer := false
	var block []string
	for in := bufio.NewScanner(strings.NewReader(text)); in.Scan(); {
		line := in.Text()
		switch {
		case line == "----":
			s.out.WriteString("----\n")
			for _, command := range block {
				s.do(strings.Fields(command))
			}
			answer, block = true, nil
		case line == "":
			answer = false
			s.out.WriteString("\n")
		case !answer:
			s.out.WriteString(line + "\n")
			if !strings.HasPrefix(line, "#") {
				block = append(block, line)
			}
		}
	}
	if s.w.judge.broken != "" {
		t.Error(s.w.judge.broken)
	}
	return s.out.String()
}

// do runs one command: "cluster a b c [option]…", "run 30s", "show", or a fault:
// "hang 1", "relabel 2 c", "tamper 1 zone", "start 1 none".
func (s *script) do(words []string) {
	switch words[0] {
	case "cluster":
		s.cluster(words[1:])
	case "run":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.zero = s.w.now
		s.w.Run(d)
	case "show":
		s.show()
	default:
		s.fault(words)
	}
}

func (s *script) cluster(words []string) {
	shape := Shape{Settings: plan.Default(), Lag: 100 * time.Millisecond}
	for _, word := range words {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "witness":
			shape.Settings.Witnesses = strings.Split(value, ",")
		case "workers":
			shape.Workers = strings.Split(value, ",")
		case "reconcile":
			shape.Reconcile = true
		default:
			shape.Zones = append(shape.Zones, word)
		}
	}
	s.w.Reset(shape, nil)
}

var hands = map[string]int{"delete": 0, "ready": 4, "hints": 6, "zone": 8, "odd": 10, "kubernetes": 12, "lease": 14}

func (s *script) fault(words []string) {
	f := Fault{Do: Action(slices.Index(actionNames[:], words[0]))}
	switch f.Do {
	case Populate:
		f.Zone, f.P = words[1], 1
	default:
		f.A = index(words[1])
	}
	if len(words) > 2 {
		switch f.Do {
		case Start:
			f.P = map[string]int{"lease": 1, "none": -1}[words[2]]
		case Tamper:
			f.P = hands[words[2]]
		case Relabel:
			f.Zone = words[2]
		default:
			d, err := time.ParseDuration(words[2])
			if err != nil {
				s.t.Fatal(err)
			}
			f.For = d
		}
	}
	s.zero = s.w.now
	s.w.apply(f)
}

// show tells what is stored, and where kube-proxy sends each zone.
func (s *script) show() {
	var v plan.View
	s.w.store.view(&s.w.store.head, &v)
	for i := range v.Slices {
		e := &v.Slices[i]
		fmt.Fprintf(&s.out, "  %s  zone %s  hints %s  %s\n", e.Name, e.Zone, strings.Join(e.Hints, " "), state(e))
	}
	seen := Visible(&v, plan.IPv4)
	for _, z := range v.Zones {
		var to []string
		for _, e := range KubeProxy(seen, z.Name) {
			to = append(to, e.Address)
		}
		slices.Sort(to)
		to = slices.Compact(to)
		fmt.Fprintf(&s.out, "  pods of %s → %s\n", z.Name, strings.Join(to, " "))
	}
}

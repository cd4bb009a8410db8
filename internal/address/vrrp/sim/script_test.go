package sim

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// TestTranscripts plays every testdata/*.txt. A transcript is blocks of
// commands, each followed by a line of dashes and what then happened; delays
// are the middle of their ranges, so it reads the same every time. With
// -update the answers are written anew, but a failed `expect` still fails.
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

// play runs the commands of a transcript and returns it with their answers.
func play(t *testing.T, text string) string {
	s := &script{t: t, w: NewWorld()}
	s.w.Trace = func(at time.Duration, line string) {
		fmt.Fprintf(&s.out, "%9.4fs  %s\n", at.Seconds(), line)
	}
	answer := false
	for in := bufio.NewScanner(strings.NewReader(text)); in.Scan(); {
		line := in.Text()
		switch {
		case line == "----":
			answer = true
			s.out.WriteString("----\n")
			s.flush()
		case line == "":
			answer = false
			s.out.WriteString("\n")
		case answer:
		default:
			s.out.WriteString(line + "\n")
			if !strings.HasPrefix(line, "#") {
				s.pending = append(s.pending, line)
			}
		}
	}
	return s.out.String()
}

type script struct {
	t       *testing.T
	w       *World
	out     strings.Builder
	pending []string
}

// flush runs the commands of a block.
func (s *script) flush() {
	for _, line := range s.pending {
		s.command(strings.Fields(line))
	}
	s.pending = nil
}

func (s *script) command(words []string) {
	switch words[0] {
	case "nodes":
		s.nodes(words[1:])
	case "run":
		s.w.Run(s.duration(words[1]))
	case "expect":
		s.expect(words[1:])
	default:
		s.fault(words)
	}
	if s.w.truth.Broken != "" {
		s.t.Errorf("broken: %s", s.w.truth.Broken)
	}
}

// nodes starts some: a priority for each, then settings for all.
func (s *script) nodes(words []string) {
	proto := vrrp.Config{Version: 3, Family: vrrp.IPv4, Interval: 100 * time.Millisecond}
	shape := Shape{Planes: 1}
	var priorities []uint8
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "interval":
			proto.Interval = s.duration(value)
		case "version":
			proto.Version = s.number(value)
		case "planes":
			shape.Planes = s.number(value)
		case "preempt":
			proto.Preempt = true
			if value != "" {
				proto.PreemptDelay = s.duration(value)
			}
		case "delay":
			proto.StartDelay = s.duration(value)
		default:
			priorities = append(priorities, uint8(s.number(key)))
		}
	}
	for _, p := range priorities {
		c := proto
		c.Priority, c.Owner = p, p == 255
		shape.Nodes = append(shape.Nodes, c)
	}
	shape.Delay, shape.Late = 200*time.Microsecond, 400*time.Microsecond
	s.w.Reset(shape, nil)
}

// expect compares who answers: `expect a`, `expect a b`, `expect nobody`.
func (s *script) expect(words []string) {
	var who []string
	for i := range s.w.n {
		n, all := &s.w.nodes[i], true
		for plane := range s.w.shape.Planes {
			all = all && n.answers(plane, s.w.now)
		}
		if all {
			who = append(who, s.w.name(i))
		}
	}
	if len(who) == 0 {
		who = []string{"nobody"}
	}
	if got, want := strings.Join(who, " "), strings.Join(words, " "); got != want {
		s.t.Errorf("at %s %s answers, want %s", s.w.now, got, want)
	}
}

func (s *script) fault(words []string) {
	f := Fault{Do: 255, Plane: -1}
	for i, name := range actionNames {
		if name == words[0] {
			f.Do = Action(i)
		}
	}
	if f.Do == 255 || len(words) < 2 {
		s.t.Fatalf("unknown command %q", strings.Join(words, " "))
	}
	a, b, pair := strings.Cut(words[1], "-")
	f.A = s.node(a)
	if pair {
		f.B = s.node(b)
	}
	for _, word := range words[2:] {
		switch {
		case strings.HasPrefix(word, "plane="):
			f.Plane = s.number(word[len("plane="):]) - 1
		case f.Do == Slow:
			f.For = s.duration(word)
		default:
			f.P, _ = strconv.ParseFloat(word, 64)
		}
	}
	s.w.apply(f)
}

func (s *script) node(name string) int {
	for i := range s.w.n {
		if s.w.name(i) == name {
			return i
		}
	}
	s.t.Fatalf("no node %q", name)
	return -1
}

func (s *script) number(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *script) duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

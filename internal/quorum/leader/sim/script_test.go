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

	"github.com/holdfast-ha/holdfast/internal/quorum/leader"
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
		if !s.quiet {
			fmt.Fprintf(&s.out, "%8.2fs  %s\n", (at - s.zero).Seconds(), line)
		}
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
	zero    time.Duration // where the clock of the transcript starts
	quiet   bool
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
	case "cluster":
		s.cluster(words[1:])
	case "run":
		s.w.Run(s.duration(words[1]))
	case "flap":
		a, b := s.pair(words[1])
		half, length := s.duration(words[2]), s.duration(words[3])
		for at := time.Duration(0); at < length; at += 2 * half {
			s.w.Inject(at, Fault{Do: Cut, A: a, B: b})
			s.w.Inject(at+half, Fault{Do: Heal, A: a, B: b})
		}
	case "explain":
		for _, line := range s.w.Explain(s.member(words[1])) {
			s.out.WriteString("  " + line + "\n")
		}
	case "expect":
		s.expect(words[1:])
	default:
		s.fault(words)
	}
	if s.w.truth.Broken != "" {
		s.t.Errorf("broken: %s", s.w.truth.Broken)
	}
}

// cluster starts one: names of members, learners after a plus sign, then
// key=value settings. Its first 20 s, in which everybody meets, are left out.
func (s *script) cluster(words []string) {
	shape := Shape{Config: leader.Default()}
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		switch {
		case !ok && strings.HasPrefix(word, "+"):
			shape.Names = append(shape.Names, word[1:])
			shape.Learners++
		case !ok:
			shape.Names = append(shape.Names, word)
		case key == "leader":
			shape.Leader = strings.Index("abcdefgh", value)
		case key == "zones":
			shape.Zones = strings.Split(value, ",")
		case key == "order":
			shape.Config.Zones = strings.Split(value, ",")
		case key == "preferred":
			shape.Config.Preferred = value
		case key == "return":
			shape.Config.ReturnAfter = s.duration(value)
		case key == "profile" && value == "seed":
			shape.Config = leader.Seed()
		case key == "rate":
			shape.Rate, _ = strconv.ParseFloat(value, 64)
		default:
			s.t.Fatalf("cluster: unknown word %q", word)
		}
	}
	s.quiet = true
	s.w.Reset(shape, nil)
	s.w.Run(20 * time.Second)
	s.quiet, s.zero = false, s.w.Now()
}

func (s *script) expect(words []string) {
	got := ""
	switch words[0] {
	case "moves":
		got = strconv.Itoa(s.w.truth.Moves)
	case "leader":
		got = "none"
		if l := s.w.leaderNow(); l >= 0 {
			got = s.w.name(l)
		}
	case "whole":
		got = "yes"
		for i := range s.w.n {
			if m := &s.w.members[i]; s.w.runs(i) && m.lead < 0 {
				got = "no"
			}
		}
	default:
		s.t.Fatalf("expect: unknown word %q", words[0])
	}
	if got != words[1] {
		s.t.Errorf("expect %s: want %s, got %s", words[0], words[1], got)
	}
}

func (s *script) fault(words []string) {
	f := Fault{Do: 255}
	for i, name := range actionNames {
		if name == words[0] {
			f.Do = Action(i)
		}
	}
	if f.Do == 255 || len(words) < 2 {
		s.t.Fatalf("unknown command %q", strings.Join(words, " "))
	}
	if f.Do <= Lossy {
		f.A, f.B = s.pair(words[1])
	} else {
		f.A = s.member(words[1])
	}
	if len(words) > 2 {
		if p, err := strconv.ParseFloat(words[2], 64); err == nil {
			f.P = p
		} else {
			f.For = s.duration(words[2])
		}
	}
	s.w.apply(f)
}

func (s *script) pair(word string) (int, int) {
	a, b, ok := strings.Cut(word, "-")
	if !ok {
		s.t.Fatalf("%q is not a pair such as a-b", word)
	}
	return s.member(a), s.member(b)
}

func (s *script) member(name string) int {
	for i := range s.w.n {
		if s.w.name(i) == name {
			return i
		}
	}
	s.t.Fatalf("no member %q", name)
	return -1
}

func (s *script) duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

package sim

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// scenario is one trouble, played in a world without chance: all clocks agree, and
// every delay is the middle of its range.
type scenario struct {
	name string
	play func(w *World)
}

// at injects faults at times from now, and lets d pass.
func at(d time.Duration, all map[time.Duration][]Fault) func(*World) {
	return func(w *World) {
		for when, faults := range all {
			for _, f := range faults {
				w.Inject(w.now+when, f)
			}
		}
		w.Run(d)
	}
}

const second = time.Second

var figures = regexp.MustCompile(`[0-9.]+m?s`)

// led is the site of the leader of a world at work, other the other one.
func (w *World) led() (led, other int) {
	if w.members[1].role == leader {
		return 1, 0
	}
	return 0, 1
}

// away takes a site's power for some time.
func away(leads bool, d time.Duration) func(*World) {
	return func(w *World) {
		site, other := w.led()
		if !leads {
			site = other
		}
		w.Inject(w.now, Fault{Do: Dark, A: site})
		w.Inject(w.now+d, Fault{Do: Light, A: site})
		w.Run(d + 25*second)
	}
}

var scenarios = []scenario{
	{"follower-lost", away(false, 20*second)},
	{"leader-lost", away(true, 20*second)},
	{"cut", at(45*second, map[time.Duration][]Fault{
		0: {{Do: Cut}, {Do: Cut, A: 1}}, 20 * second: {{Do: Join}, {Do: Join, A: 1}},
	})},
	{"cut-for-two-seconds", at(15*second, map[time.Duration][]Fault{
		0: {{Do: Cut}, {Do: Cut, A: 1}}, 2 * second: {{Do: Join}, {Do: Join, A: 1}},
	})},
	{"arbiter-down", at(40*second, map[time.Duration][]Fault{0: {{Do: Arbiter, A: -1, Way: refuse}}, 30 * second: {{Do: Arbiter, A: -1}}})},
	{"cut-with-the-arbiter-down", at(50*second, map[time.Duration][]Fault{
		0:           {{Do: Arbiter, A: -1, Way: refuse}, {Do: Cut}, {Do: Cut, A: 1}},
		15 * second: {{Do: Arbiter, A: -1}}, 30 * second: {{Do: Join}, {Do: Join, A: 1}},
	})},
	{"held-and-released", at(40*second, map[time.Duration][]Fault{0: {{Do: Hold}}, 20 * second: {{Do: Free}}})},
	{"disk-lost", at(40*second, map[time.Duration][]Fault{0: {{Do: Lose, A: 1}}})},
	{"both-lost-then-the-stale-one-is-forced", at(75*second, map[time.Duration][]Fault{
		0: {{Do: Dark, A: 1}}, 15 * second: {{Do: Dark, A: 0}}, 16 * second: {{Do: Light, A: 1}},
		25 * second: {{Do: Force, A: 1}}, 45 * second: {{Do: Light, A: 0}},
	})},
	{"agent-dies-between-claim-and-edit", func(w *World) {
		site, other := w.led()
		w.Inject(w.now, Fault{Do: Dark, A: other})
		w.until(10*second, func() bool { return w.record.State == arbiter.Solo })
		w.Inject(w.now+100*time.Millisecond, Fault{Do: KillAgent, A: site})
		w.Inject(w.now+15*second, Fault{Do: Light, A: other})
		w.Run(45 * second)
	}},
}

// until lets time pass until something is so, and reports whether it came to be.
func (w *World) until(limit time.Duration, so func() bool) bool {
	for end := w.now + limit; w.now < end && !so(); {
		w.Run(10 * time.Millisecond)
	}
	return so()
}

// script is a world at work in which nothing is left to chance.
func script() *World {
	w := NewWorld()
	w.Reset(Shape{
		Latency: 5 * time.Millisecond, Fast: 50 * time.Millisecond, Sync: 5 * time.Millisecond, Transfer: second,
		Boot: 500 * time.Millisecond, Writes: 200 * time.Millisecond,
	}, nil)
	// Without chance both would campaign at the same moments for ever.
	w.now += time.Millisecond
	w.agents[0].boot()
	w.start(0, false)
	w.Run(15 * second)
	return w
}

// TestTranscripts plays single troubles at the defaults.
func TestTranscripts(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			w := script()
			defer w.Close()
			if !w.whole() {
				t.Fatal("no pair to begin with")
			}
			var out bytes.Buffer
			zero := w.now
			said := map[string]time.Duration{}
			w.Trace = func(at time.Duration, line string) {
				sense := strings.Trim(figures.ReplaceAllString(line, ""), " ")
				last, again := said[sense]
				said[sense] = at
				if strings.Contains(line, ": nothing: no quorum for ") || again && at-last < 3*second {
					return // it says the same all the time
				}
				fmt.Fprintf(&out, "%7.3f  %s\n", (at - zero).Seconds(), line)
			}
			s.play(w)
			if w.judge.broken != "" {
				t.Error(w.judge.broken)
			}
			if !w.whole() {
				t.Errorf("at the end the pair is none: %s %s", w.record.State, w.record.Survivor)
			}
			compare(t, filepath.Join("testdata", s.name+".txt"), out.Bytes())
		})
	}
}

func compare(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s (update with -update):\n%s\nwant:\n%s", file, got, want)
	}
}

// TestAChangeThatLandsLate plays what one seed of 200 000 found. A survivor that is
// not edited yet has its quorum back and changes the record to paired; the change
// hangs on its way, the quorum is lost again, and the survivor goes on to surgery. A
// record that says paired must not appear behind it.
func TestAChangeThatLandsLate(t *testing.T) {
	for _, test := range []struct {
		name  string
		bent  rules
		wrong string
	}{
		{name: "as it is"},
		{"surgery rests on a record that may yet be changed", rules{decide: func(a *agent, _ *pair.View, _ *pair.Plan) {
			a.state.Void = ""
		}}, "writes paired, and the cluster has 1 voters"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := script()
			defer w.Close()
			w.bent = test.bent
			site, other := w.led()
			link := func(do act) {
				w.apply(Fault{Do: do, A: 0})
				w.apply(Fault{Do: do, A: 1})
			}
			step := func(what string, so func() bool) {
				t.Helper()
				if !w.until(30*second, so) {
					t.Fatalf("it never came to this: %s", what)
				}
			}
			m := &w.members[site]
			w.apply(Fault{Do: Arbiter, A: other, Way: refuse}) // else it stops
			link(Cut)
			step("a claim", func() bool { return w.record.State == arbiter.Solo })
			w.apply(Fault{Do: Arbiter, A: site, Way: hang})
			step("a stop", func() bool { return !m.up })
			link(Join)
			step("a quorum", func() bool { return m.up && w.quorate(m) != nil })
			step("a change to paired, on its way", func() bool { return w.agents[site].last.Do == pair.Pair })
			w.Run(second)
			link(Cut)
			w.apply(Fault{Do: Arbiter, A: site})
			step("surgery", func() bool { return w.judge.Edits > 0 })
			w.Run(60 * second)
			if !strings.Contains(w.judge.broken, test.wrong) || (test.wrong == "") != (w.judge.broken == "") {
				t.Errorf("broken: %q, want %q", w.judge.broken, test.wrong)
			}
		})
	}
}

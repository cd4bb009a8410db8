package robustness

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// fault is one thing that goes wrong, and for how long.
type fault struct {
	at    time.Duration // since the traffic ran, or, if onSwap, since the next change of the record
	lasts time.Duration
	kind  string
	site  int // 0, 1; 2: both
	// onSwap: the moment is that of a change of the record.
	onSwap bool
}

func (f fault) String() string {
	when := fmt.Sprintf("%.2fs", f.at.Seconds())
	if f.onSwap {
		when = "change+" + when
	}
	return fmt.Sprintf("%s %s of %s for %.2fs", when, f.kind, [...]string{"a", "b", "both"}[f.site], f.lasts.Seconds())
}

// schedule is a run of agents.
type schedule struct {
	version string
	extra   []string // of etcd
	timers  []string // of the agents
	faults  []fault
}

func (s schedule) String() string {
	var all []string
	for _, f := range s.faults {
		all = append(all, f.String())
	}
	return fmt.Sprintf("etcd %s %v, agents %v: %s", s.version, s.extra, s.timers, strings.Join(all, "; "))
}

// great are the faults that have a takeover follow if they last, small those that
// meet one at a bad moment.
var (
	great = []string{"cut", "cut-and-reset", "power", "power", "etcd-frozen", "site-frozen"}
	small = []string{
		"etcd-killed", "agent-killed", "agent-killed-twice", "power", "agent-frozen", "etcd-frozen", "one-way", "reset",
		"arbiter-slow", "arbiter-lost", "arbiter-refused", "arbiter-broken",
		"lie-swallowed", "lie-forged-loss", "lie-past", "lie-nothing", "lie-garbled",
	}
)

const scheduled = 9 * time.Second

// chooseSchedule makes a run of a seed. Seeds that follow one another have other versions.
func chooseSchedule(seed uint64) schedule {
	r := rand.New(rand.NewPCG(seed, 2))
	s := schedule{version: versions[seed%3], timers: []string{"--lost-after", "2s", "--head-start", "500ms"}}
	if r.IntN(2) == 0 {
		s.extra = []string{"--snapshot-count", "200"}
	}
	ms := func(from, to int) time.Duration { return time.Duration(in(r, from, to)) * time.Millisecond }
	s.faults = append(s.faults, fault{at: ms(0, 500), lasts: ms(1500, 7000), kind: great[r.IntN(len(great))], site: r.IntN(2)})
	for range in(r, 1, 4) {
		f := fault{at: ms(0, 7000), lasts: ms(100, 3000), kind: small[r.IntN(len(small))], site: r.IntN(3)}
		if f.onSwap = r.IntN(2) == 0; f.onSwap {
			f.at = ms(0, 1500)
		}
		s.faults = append(s.faults, f)
	}
	slices.SortStableFunc(s.faults, func(x, y fault) int { return cmp.Compare(x.at, y.at) })
	return s
}

package balance

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/balance/choose"
	"github.com/holdfast-ha/holdfast/internal/access/balance/source"
	"github.com/holdfast-ha/holdfast/internal/health"
)

func testPool() Pool {
	p := Pool{}
	p.fill(&Settings{Profile: profileDefault})
	return p
}

func listOf(ids ...string) []source.Backend {
	var all []source.Backend
	for _, id := range ids {
		all = append(all, source.Backend{Network: "tcp", Address: id})
	}
	return all
}

func verdict(g health.Grade) health.Verdict { return health.Verdict{Grade: g, Reason: g.String()} }

// words turns actions into a transcript.
func words(actions []action) string {
	var all []string
	for _, a := range actions {
		switch a.kind {
		case added:
			all = append(all, "add "+a.id)
		case removed:
			all = append(all, "remove "+a.id)
		case graded:
			all = append(all, fmt.Sprintf("%s %s→%s", a.id, a.from, a.to))
		case ended:
			all = append(all, fmt.Sprintf("%s %s: %s", a.how, a.id, a.cause))
		case resumed:
			all = append(all, "resume "+a.id)
		case doubted:
			all = append(all, "doubt")
		case trusted:
			all = append(all, "trust")
		case nudged:
			all = append(all, "probe "+a.id)
		}
	}
	return strings.Join(all, "; ")
}

// TestRoster reads as a transcript of a pool's life.
func TestRoster(t *testing.T) {
	r := newRoster(testPool())
	at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	judge := func(now float64, id string, g health.Grade) func() []action {
		return func() []action { return r.judged(at(now), id, verdict(g)) }
	}
	suspect := func(now float64, id string) func() []action {
		return func() []action {
			return r.judged(at(now), id, health.Verdict{Grade: health.Ready, Suspect: true})
		}
	}
	for i, step := range []struct {
		do   func() []action
		want string
	}{
		{func() []action { return r.list(at(0), listOf("a", "b", "c")) }, "add a; resume a; add b; resume b; add c; resume c"},
		{judge(0.1, "a", health.Ready), "a unknown→ready; resume a"},
		{judge(0.1, "b", health.Ready), "b unknown→ready; resume b"},
		{judge(0.2, "c", health.Refused), "c unknown→refused; reset c: refused"},
		{func() []action { return r.list(at(1), nil) }, ""},
		{judge(20, "a", health.Frozen), "a ready→frozen; reset a: frozen"},
		{judge(21, "a", health.Unreachable), "a frozen→unreachable"},
		{judge(30, "a", health.Ready), "a unreachable→ready; resume a"},
		{judge(40, "b", health.ShuttingDown), "b ready→shutting down; drain b: shutting down"},
		{judge(50, "b", health.Refused), "b shutting down→refused; reset b: refused"},
		{judge(60, "b", health.Ready), "b refused→ready; resume b"},
		// Both within a moment: the last one's connections are spared.
		{judge(70, "a", health.Unreachable), "a ready→unreachable; reset a: unreachable"},
		{judge(71, "b", health.Unreachable), "b ready→unreachable; doubt"},
		{func() []action { return r.tick(at(75)) }, ""},
		{judge(76, "b", health.Ready), "b unreachable→ready; resume b; trust"},
		{judge(80, "a", health.Ready), "a unreachable→ready; resume a; reset c: refused"},
		{judge(90, "a", health.Unreachable), "a ready→unreachable; reset a: unreachable"},
		{judge(91, "b", health.Unreachable), "b ready→unreachable; doubt"},
		// Not a moment any more: it is believed, and what was put off happens.
		{func() []action { return r.tick(at(102)) }, "trust; reset b: unreachable"},
		// The first is back. The others may be on their way: their connections
		// wait a little, then they end, for they were a stopgap.
		{judge(110, "a", health.Ready), "a unreachable→ready; resume a"},
		{judge(111, "b", health.Ready), "b unreachable→ready; resume b"},
		{func() []action { return r.tick(at(113)) }, "reset c: refused"},
		// Suspicion of one has the others probed; if all are suspect, a fall
		// waits for what becomes of them.
		{suspect(120, "a"), "probe b"},
		{suspect(120.3, "b"), ""},
		{judge(120.9, "a", health.Frozen), "a ready→frozen"},
		{judge(121, "b", health.Ready), "reset a: frozen"},
		{judge(125, "a", health.Ready), "a frozen→ready; resume a"},
		{func() []action { a, _ := r.hold(at(131), "a", true); return a }, "drain a: drained by a person"},
		{func() []action { a, _ := r.hold(at(132), "a", false); return a }, "resume a"},
		{func() []action { a, _ := r.hold(at(132), "b", true); return a }, "drain b: drained by a person"},
		{func() []action { return r.list(at(133), listOf("a", "d")) }, "add d; resume d; remove b; reset b: left the list; remove c; reset c: left the list"},
		{judge(134, "b", health.Ready), ""},
		// A hold outlives the list.
		{func() []action { return r.list(at(140), listOf("a", "b", "d")) }, "add b"},
		{judge(141, "b", health.Ready), "b unknown→ready"},
		// A new list is no sign of a fault of this node.
		{func() []action { return r.list(at(142), listOf("x", "y")) }, "add x; resume x; add y; resume y; remove a; reset a: left the list; remove b; reset b: left the list; remove d; reset d: left the list"},
	} {
		if got := words(step.do()); got != step.want {
			t.Fatalf("step %d:\ngot  %s\nwant %s", i, got, step.want)
		}
	}
}

// schedules is how many random lives TestRandomLives runs; nightly runs more.
func schedules(t *testing.T) int {
	if text := os.Getenv("HOLDFAST_SIM_SCHEDULES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("HOLDFAST_SIM_SCHEDULES: %v", err)
		}
		return n
	}
	return 2000
}

func simSeed(t *testing.T) uint64 {
	text := os.Getenv("HOLDFAST_SIM_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano())
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("HOLDFAST_SIM_SEED: %v", err)
	}
	return n
}

// TestRandomLives runs pools through random schedules of lists, verdicts, holds
// and time, with connections picked all along.
func TestRandomLives(t *testing.T) {
	seed := simSeed(t)
	t.Logf("seed %d (HOLDFAST_SIM_SEED)", seed)
	for n := range schedules(t) {
		l := newLife(rand.New(rand.NewPCG(seed, uint64(n))))
		for range 60 {
			l.step()
			if l.broken != "" {
				t.Fatalf("seed %d, schedule %d: %s\n%s", seed, n, l.broken, strings.Join(l.log, "\n"))
			}
		}
	}
}

// life is a pool in a simulation, with what a dumb observer knows of it.
type life struct {
	r      *rand.Rand
	roster *roster
	now    time.Duration
	grades map[string]health.Grade // last verdict of who is listed
	held   map[string]bool
	// spared are backends that failed in doubt and were not reset yet.
	spared map[string]bool
	log    []string
	broken string
}

func newLife(r *rand.Rand) *life {
	return &life{r: r, roster: newRoster(testPool()), grades: map[string]health.Grade{}, held: map[string]bool{}, spared: map[string]bool{}}
}

func (l *life) id() string { return string(rune('a' + l.r.IntN(5))) }

func (l *life) step() {
	l.now += time.Duration(l.r.IntN(4000)) * time.Millisecond
	before, had := copyOf(l.grades), len(l.roster.entries)
	var actions []action
	what := ""
	switch l.r.IntN(8) {
	case 0:
		what, actions = l.relist()
	case 1:
		id, held := l.id(), l.r.IntN(2) == 0
		what = fmt.Sprintf("hold %s %v", id, held)
		var ok bool
		if actions, ok = l.roster.hold(l.now, id, held); ok {
			l.held[id] = held
		}
	case 2:
		what, actions = "tick", l.roster.tick(l.now)
	default:
		id, v := l.id(), health.Verdict{Grade: health.Grade(l.r.IntN(8)), Suspect: l.r.IntN(4) == 0}
		what, actions = fmt.Sprintf("judged %s %s", id, v.Grade), l.roster.judged(l.now, id, v)
		if _, listed := l.grades[id]; listed && (v.Grade != health.Unknown || l.grades[id] == health.Unknown) {
			l.grades[id] = v.Grade
		}
	}
	actions = append(actions, l.roster.tick(l.now)...) // the shell's comes within a second
	l.log = append(l.log, fmt.Sprintf("%s %s: %s", l.now, what, words(actions)))
	if had > 0 && len(l.roster.entries) == 0 {
		l.broken = "the list became empty"
		return
	}
	l.judge(before, actions)
	l.pick()
}

func copyOf(m map[string]health.Grade) map[string]health.Grade {
	out := map[string]health.Grade{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

func (l *life) relist() (string, []action) {
	var ids []string
	for i := range 5 {
		if l.r.IntN(2) == 0 {
			ids = append(ids, string(rune('a'+i)))
		}
	}
	actions := l.roster.list(l.now, listOf(ids...))
	if len(ids) == 0 {
		return "list nothing", actions
	}
	for id := range l.grades {
		if !slices.Contains(ids, id) {
			delete(l.grades, id)
			delete(l.spared, id)
		}
	}
	for _, id := range ids {
		if _, ok := l.grades[id]; !ok {
			l.grades[id] = health.Unknown
		}
	}
	return "list " + strings.Join(ids, ","), actions
}

// judge holds the endings against what has happened.
func (l *life) judge(before map[string]health.Grade, actions []action) {
	spared := l.roster.spared(l.now)
	for _, a := range actions {
		if a.kind != ended || a.how != Reset || a.cause == "left the list" {
			continue
		}
		if spared {
			l.broken = "reset of " + a.id + " although it is to be spared"
		}
		if l.grades[a.id].Usable() {
			l.broken = "reset of " + a.id + ", which is " + l.grades[a.id].String()
		}
	}
	for id, g := range l.grades {
		if before[id].Usable() && !g.Usable() && g != health.ShuttingDown {
			l.spared[id] = true
		}
		if g.Usable() || g == health.ShuttingDown {
			delete(l.spared, id)
		}
	}
	for _, a := range actions {
		if a.kind == ended && a.how == Reset {
			delete(l.spared, a.id)
		}
	}
	if len(l.spared) > 0 && !spared {
		l.broken = fmt.Sprintf("%v failed and kept their connections", l.spared)
	}
}

// pick opens a connection and judges where it went.
func (l *life) pick() {
	table := l.roster.table()
	i, answer := table.Pick(choose.Query{Active: func(int) int { return 0 }, Now: l.now, Random: l.r.Float64})
	best := health.Unknown
	for id, g := range l.grades {
		if !l.held[id] {
			best = max(best, g)
		}
	}
	if !best.Usable() {
		return
	}
	if answer != choose.Use {
		l.broken = fmt.Sprintf("a client was refused while a backend is %s", best)
		return
	}
	if got := l.grades[table.Backends()[i].ID]; got != best {
		l.broken = fmt.Sprintf("a client went to %s (%s) while a backend is %s", table.Backends()[i].ID, got, best)
	}
}

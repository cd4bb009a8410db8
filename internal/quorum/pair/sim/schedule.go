package sim

import (
	"math/rand/v2"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
)

// Result is what a schedule came to.
type Result struct {
	Faults, Claims, Edits, Pairs, Asides, Writes int
	Simulated                                    time.Duration
	// Again is how long after the last fault both were paired again.
	Again time.Duration
	// Broken is the broken invariant in words; empty is good.
	Broken string
}

// bound is how long a pair may take to be one again once all is mended: a join
// that hangs may take joinGrace, and a snapshot its time.
const bound = 120 * time.Second

// Schedule runs the schedule of one seed in w, from its faults through to the
// calm at its end.
func Schedule(w *World, seed uint64) Result { return w.schedule(seed, rules{}) }

func (w *World) schedule(seed uint64, bent rules) Result {
	rng := rand.New(rand.NewPCG(seed, 0x70616972))
	shape := randomShape(rng)
	if bent.shape != nil {
		bent.shape(&shape)
	}
	w.Reset(shape, rng)
	w.bent = bent
	w.Run(w.between(3*time.Second, 12*time.Second))
	if rng.IntN(8) == 0 {
		w.arbiterAlone()
	} else {
		w.disturb()
	}
	var again time.Duration
	if w.judge.broken == "" {
		again = w.calm()
	}
	w.Close()
	j := &w.judge
	return Result{len(w.faults), j.Claims, j.Edits, j.Pairs, j.Asides, j.Writes, w.now, again, j.broken}
}

func randomShape(rng *rand.Rand) Shape {
	ms := func(all ...time.Duration) time.Duration { return all[rng.IntN(len(all))] * time.Millisecond }
	s := Shape{
		Latency: ms(1, 1, 5, 20), Fast: ms(10, 30, 100, 700), Sync: ms(2, 10, 100), Transfer: ms(100, 1000, 4000),
		Boot: ms(300, 1000), Writes: ms(300, 1000), Torn: []float64{0, 0, 0, 0.3}[rng.IntN(4)],
		Slow:   []float64{0, 0.03, 0.3}[rng.IntN(3)],
		Prefer: []string{"", "", "a", "b"}[rng.IntN(4)], ServeStale: rng.IntN(4) == 0,
	}
	switch rng.IntN(16) {
	case 0, 1:
		s.Begin = New
	case 2:
		s.Begin = Single
	}
	return s
}

// disturb lets anything happen for up to a minute.
func (w *World) disturb() {
	person := w.rng.IntN(6)
	end := w.now + w.between(2*time.Second, 50*time.Second)
	at := w.now
	for n := 1 + w.rng.IntN(10); n > 0 && at < end; n-- {
		w.trouble(at, person)
		switch w.rng.IntN(4) {
		case 0:
			at += w.between(0, 100*time.Millisecond)
		case 1:
			at += w.between(0, 2*time.Second)
		default:
			at += w.between(0, 12*time.Second)
		}
	}
	w.Run(end - w.now)
}

// trouble is one thing that goes wrong, and most often is mended.
func (w *World) trouble(at time.Duration, person int) {
	a := w.rng.IntN(2)
	length := w.between(0, 4*time.Second)
	if w.chance(0.5) {
		length = w.between(0, 30*time.Second)
	}
	end := at + length
	w.Inject(at-w.between(0, 100*time.Millisecond), Fault{Do: Burst, N: 2 + w.rng.IntN(20)})
	both := func(do, undo act) {
		w.Inject(at, Fault{Do: do, A: a})
		w.Inject(end, Fault{Do: undo, A: a})
	}
	switch w.rng.IntN(20) {
	case 0, 1:
		w.Inject(at, Fault{Do: KillEtcd, A: a})
	case 2, 3:
		w.Inject(at, Fault{Do: KillAgent, A: a})
	case 4, 5, 6:
		both(Dark, Light)
	case 7:
		w.Inject(at, Fault{Do: FreezeEtcd, A: a, For: length})
	case 8:
		w.Inject(at, Fault{Do: FreezeAgent, A: a, For: length})
	case 9, 10, 11:
		both(Cut, Join)
		a = 1 - a
		at += w.between(0, 50*time.Millisecond)
		both(Cut, Join)
	case 12:
		both(Cut, Join)
	case 13, 14:
		w.arbiterTrouble(at, end)
	case 15, 16, 17:
		w.Inject(at, Fault{Do: Fuse, A: a, N: 1 + w.rng.IntN(12), All: w.rng.IntN(2) == 0})
	case 18:
		w.rare(at, end, a)
	case 19:
		w.byHand(at, end, a, person)
	}
}

func (w *World) rare(at, end time.Duration, a int) {
	switch w.rng.IntN(5) {
	case 0:
		w.Inject(at, Fault{Do: Lose, A: a})
	case 4:
		w.Inject(at, Fault{Do: Back, A: -1})
		w.Inject(end, Fault{Do: Forth, A: -1})
	case 3:
		w.Inject(at, Fault{Do: Damage, A: a})
	case 1:
		w.Inject(at, Fault{Do: Blind, A: a})
		w.Inject(end, Fault{Do: See, A: a})
	case 2:
		w.Inject(at, Fault{Do: Full, A: a})
		w.Inject(end, Fault{Do: Space, A: a})
	}
}

// byHand is what a person does. Of six schedules one has a person that accepts
// losses.
func (w *World) byHand(at, end time.Duration, a, person int) {
	switch {
	case person == 0:
		w.Inject(at, Fault{Do: Force, A: a})
	case person == 3:
		w.Inject(at, Fault{Do: Remove, A: a})
	case person < 3:
		w.Inject(at, Fault{Do: Hold, A: a})
		if w.chance(0.7) {
			w.Inject(end, Fault{Do: Free, A: a})
		}
	}
}

func (w *World) arbiterTrouble(at, end time.Duration) {
	f := Fault{Do: Arbiter, A: w.rng.IntN(3) - 1, Way: []way{hang, hang, refuse, deny, slow, slow}[w.rng.IntN(6)]}
	w.Inject(at, f)
	f.Way = open
	w.Inject(end, f)
}

// arbiterAlone breaks nothing but the arbiter, and nobody touches etcd.
func (w *World) arbiterAlone() {
	if !w.whole() {
		w.Run(20 * time.Second)
	}
	if !w.whole() {
		return // a new pair takes longer, now and then
	}
	w.shape.Slow = 0
	w.Run(3 * time.Second)
	w.judge.untouched = true
	for range 1 + w.rng.IntN(4) {
		w.arbiterTrouble(w.now, w.now+w.between(0, 40*time.Second))
		if w.chance(0.3) {
			w.Inject(w.now, Fault{Do: KillAgent, A: w.rng.IntN(2)})
		}
		w.Run(w.between(0, 30*time.Second))
	}
	if !w.whole() {
		w.breach("the pair is none any more, with nothing broken but the arbiter")
	}
	w.judge.untouched = false
}

// whole reports whether the record is paired and both members take writes.
func (w *World) whole() bool {
	r := w.record
	a, b := &w.members[0], &w.members[1]
	return r.State == arbiter.Paired && w.quorate(a) != nil && w.quorate(b) != nil && a.conf.count() == 2 && a.conf == b.conf
}

// calm mends everything, and waits until the pair is one again.
func (w *World) calm() time.Duration {
	w.heal()
	began := w.now
	if w.becomes(bound, w.whole) {
		if again, lasts := w.settled(began); lasts {
			return again
		}
	}
	for range 3 {
		if !w.helped() || w.becomes(bound, w.whole) {
			return 0
		}
	}
	r := w.record
	w.breach("calm for %s after a person helped, and not a pair: the record is %s %s, generation %d", bound, r.State, r.Survivor, r.Generation)
	return 0
}

// helped has a person do what only a person may.
func (w *World) helped() bool {
	switch r := w.record; {
	case r.Held:
		w.Inject(w.now, Fault{Do: Free, A: 0})
	case r.State == arbiter.Paired && w.alone() >= 0:
		// Its peer was removed, and its agent has not seen them as two.
		w.Inject(w.now, Fault{Do: Hold, A: w.alone()})
	case w.lost(r):
		w.Inject(w.now, Fault{Do: Force, A: 1 - indexOf(r.Survivor)})
	default:
		w.breach("calm for %s, and not a pair: the record is %s %s, generation %d", bound, r.State, r.Survivor, r.Generation)
		return false
	}
	w.Run(time.Second)
	return true
}

// alone is the site whose directory is that of a single member, -1 if none is.
func (w *World) alone() int {
	for i := range w.sites {
		if readLog(w.sites[i].dir).Content == pair.Alone {
			return i
		}
	}
	return -1
}

// lost says that the survivor has nothing to serve with, so that a person has to
// accept a loss.
func (w *World) lost(r arbiter.Record) bool {
	s := &w.sites[indexOf(r.Survivor)]
	if r.State != arbiter.Solo || !r.Forced && !s.lost && !w.judge.byHand {
		return false
	}
	log := readLog(s.dir)
	return log.Content == pair.Empty || log.Content == pair.Unfit || log.Learner || !s.dir.verdict().selfVotes
}

// settled lets the pair write on, with all that either has, and says whether it
// lasts. A member that a person takes out may go when the pair already seems whole.
func (w *World) settled(began time.Duration) (again time.Duration, lasts bool) {
	again, writes := w.now-began, w.judge.Writes
	w.Run(5 * time.Second)
	// A change of the record that was on its way all the time takes one read more.
	lasts = w.becomes(30*time.Second, func() bool { return w.whole() && w.judge.Writes > writes })
	if !lasts && !w.judge.byHand {
		w.breach("paired again, and it does not last")
	}
	return again, lasts
}

func (w *World) becomes(limit time.Duration, so func() bool) bool {
	for end := w.now + limit; w.now < end && w.judge.broken == ""; {
		if so() {
			return true
		}
		w.Run(500 * time.Millisecond)
	}
	return w.judge.broken != ""
}

func indexOf(name string) int {
	if name == names[1] {
		return 1
	}
	return 0
}

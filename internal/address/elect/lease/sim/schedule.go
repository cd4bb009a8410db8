package sim

import (
	"math/rand/v2"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
)

// Result is what a schedule came to.
type Result struct {
	Faults, Begun, Given, Lapsed int
	Simulated                    time.Duration
	// Replaced is how long the address was away after its holder was killed, in
	// parts of the lease.
	Replaced float64
	// Broken is the broken invariant in words; empty is good.
	Broken string
}

// Schedule runs the schedule of one seed in w, from its faults through to the
// calm at its end.
func Schedule(w *World, seed uint64) Result { return w.schedule(seed, rules{}) }

func (w *World) schedule(seed uint64, bent rules) Result {
	rng := rand.New(rand.NewPCG(seed, 0x6c65617365))
	w.Reset(randomShape(rng), rng)
	w.bent = bent
	stalls := rng.IntN(4) == 0
	if stalls {
		w.shape.Config.Policy, w.shape.Durations = lease.Keep, [most]time.Duration{}
		w.shape.Lost, w.shape.Unanswered = min(w.shape.Lost, 0.02), 0
		w.stall()
	} else {
		w.disturb()
	}
	var replaced float64
	if w.judge.broken == "" {
		replaced = w.calm()
	}
	j := &w.judge
	return Result{len(w.faults), j.Begun, j.Given, j.Lapsed, w.now, replaced, j.broken}
}

func randomShape(rng *rand.Rand) Shape {
	s := Shape{Nodes: []int{2, 3, 3, 3, 4, 5}[rng.IntN(6)], Config: lease.Config{Linger: time.Second, Key: []byte("key")}}
	s.Config.Duration = []time.Duration{300, 1000, 2500, 2500, 15000}[rng.IntN(5)] * time.Millisecond
	if rng.IntN(4) == 0 {
		s.Config.Policy = lease.Drop
	}
	if rng.IntN(5) == 0 {
		for i := range s.Nodes {
			if rng.IntN(2) == 0 {
				s.Durations[i] = s.Config.Duration * 2
			}
		}
	}
	s.Fast = s.Config.Duration / []time.Duration{1000, 200, 50, 25}[rng.IntN(4)]
	s.Lost = []float64{0, 0, 0, 0.02, 0.1}[rng.IntN(5)]
	s.Unanswered = s.Lost
	s.Lag = s.Fast * []time.Duration{1, 1, 1, 4, 30}[rng.IntN(5)]
	return s
}

// disturb lets anything happen for some ten leases.
func (w *World) disturb() {
	unit := w.shape.Config.Duration
	length := w.between(6*unit, 40*unit)
	mean := w.between(unit/4, 3*unit)
	// Who makes a deleted record anew does not know how long its holder's lease was.
	naming, deleting := w.rng.IntN(6) == 0, w.rng.IntN(8) == 0 && w.uniform()
	for at := w.between(0, 5*unit); at < length; at += w.between(0, 2*mean) {
		w.trouble(at, unit, naming, deleting)
	}
	w.Run(length)
}

// trouble is one thing that goes wrong, and most often is mended.
func (w *World) trouble(at, unit time.Duration, naming, deleting bool) {
	a, b := w.rng.IntN(w.n), w.rng.IntN(w.n)
	bad := []way{hang, hang, refuse}[w.rng.IntN(3)]
	end := at + w.between(0, 4*unit)
	pair := func(do, undo act, f Fault) {
		f.Do = do
		w.Inject(at, f)
		f.Do, f.Way = undo, open
		w.Inject(end, f)
	}
	switch w.rng.IntN(14) {
	case 0:
		pair(Kill, Start, Fault{A: a})
	case 1:
		pair(Crash, Start, Fault{A: a})
	case 2, 3:
		w.Inject(at, Fault{Do: Freeze, A: a, For: end - at})
	case 4, 5, 6:
		pair(API, API, Fault{Way: bad})
	case 7, 8:
		pair(Path, Path, Fault{A: a, Way: bad})
	case 9, 10:
		pair(Cut, Join, Fault{A: a, B: b})
		if w.chance(0.5) {
			pair(Cut, Join, Fault{A: b, B: a})
		}
	case 11:
		pair(Unready, Ready, Fault{A: a})
	case 12:
		w.Inject(at, Fault{Do: Release, A: a})
	case 13:
		pair(Stop, Start, Fault{A: a})
	}
	switch {
	case naming && w.chance(0.2):
		w.Inject(at, Fault{Do: Name, Mask: 1 + w.rng.IntN(1<<w.n-1)})
	case !naming && deleting && w.chance(0.2):
		w.Inject(at, Fault{Do: Delete})
	}
}

// stall has the API hang for everybody, again and again; nothing else is broken,
// and nobody lets go of the address.
func (w *World) stall() {
	unit := w.shape.Config.Duration
	w.Run(time.Second + 4*unit)
	if len(w.holders()) != 1 {
		w.breach("%d hold it after the start", len(w.holders()))
		return
	}
	w.judge.settled = true
	bad := []way{hang, hang, refuse}[w.rng.IntN(3)]
	for range 1 + w.rng.IntN(6) {
		at := w.now + w.between(0, unit)
		end := at + w.between(unit/4, 5*unit)
		for i := range w.n { // not all at the same instant
			w.Inject(at+w.between(0, unit/8), Fault{Do: Path, A: i, Way: bad})
			w.Inject(end+w.between(0, unit/8), Fault{Do: Path, A: i})
		}
		w.Run(end - w.now + w.between(unit/8, 2*unit))
	}
}

// calm mends everything, and judges what follows; it returns how long it took to
// replace a holder that was killed.
func (w *World) calm() float64 {
	w.heal()
	w.judge.settled = false
	span := w.span()
	w.Run(5*span + 2*time.Second)
	holders := w.holders()
	if len(holders) != 1 {
		w.breach("calm, and %v hold it", holders)
		return 0
	}
	first := holders[0]
	w.judge.settled = true
	w.rest(first, 6*span)
	w.judge.settled = false
	took := w.replace(first)
	if w.judge.broken != "" {
		return 0
	}
	w.Run(span / 5) // others have tried, too
	w.judge.settled = true
	second := w.holders()[0]
	w.Inject(w.now, Fault{Do: Start, A: first})
	w.rest(second, 3*span)
	w.handOver(second)
	return took
}

func (w *World) span() time.Duration {
	span := w.shape.Config.Duration
	for i := range w.n {
		span = max(span, w.duration(&w.nodes[i]))
	}
	return span
}

// rest judges a time without events: nobody lets go, the holder writes as often
// as it should, the others ask nothing.
func (w *World) rest(holder int, d time.Duration) {
	w.judge.reads, w.judge.writes = 0, 0
	w.Run(d)
	w.agree()
	if all := w.holders(); w.judge.broken == "" && (len(all) != 1 || all[0] != holder) {
		w.breach("at rest, and %v hold it instead of %s", all, names[holder])
	}
	renew := w.duration(&w.nodes[holder]) * 2 / 5
	if most := int(float64(d)*1.02/float64(renew)) + 1; w.judge.writes > most {
		w.breach("at rest, and %d writes in %s, not %d", w.judge.writes, d, most)
	}
	if w.shape.Lag <= w.shape.Config.Duration/50 && w.uniform() && w.judge.reads > w.n {
		w.breach("at rest, and %d reads in %s", w.judge.reads, d)
	}
}

func (w *World) uniform() bool { return w.shape.Durations == [most]time.Duration{} }

// replace kills the holder and waits for another.
func (w *World) replace(holder int) float64 {
	span := w.span()
	killed := w.now
	w.Inject(w.now, Fault{Do: Crash, A: holder})
	// A lease by the slowest clock, the watch's lag, and one write, repeated once
	// if another was faster.
	limit := span + span/50 + w.shape.Lag + 6*w.shape.Fast + 30*time.Millisecond
	for len(w.holders()) == 0 || w.now == killed {
		w.Run(time.Millisecond * 5)
		if w.now-killed > limit || w.judge.broken != "" {
			w.breach("nobody holds it %s after its holder died", w.now-killed)
			return 0
		}
	}
	return float64(w.now-killed) / float64(span)
}

// handOver stops the holder: there is no gap, and another holds it.
func (w *World) handOver(holder int) {
	if w.shape.Fast > 50*time.Millisecond {
		w.judge.settled = false // three ways to the API take as long as a holder lingers
	}
	given := w.judge.Given
	w.Inject(w.now, Fault{Do: Stop, A: holder})
	w.Run(time.Second + w.span()/10)
	all := w.holders()
	if w.judge.broken == "" && w.judge.settled && (w.judge.Given == given || len(all) != 1 || all[0] == holder) {
		w.breach("stopped, and %v hold it; handed over %d times", all, w.judge.Given-given)
	}
}

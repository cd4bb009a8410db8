package sim

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/vrrp"
)

// virtuals are the addresses of each plane, made once.
var virtuals = [mostPlanes][]netip.Addr{{virtual(0)}, {virtual(1)}}

// Result is what a schedule came to.
type Result struct {
	Moves, Sent, Faults, HandOvers, TakeOvers int
	Simulated                                 time.Duration
	// Broken is the broken invariant in words; empty is good.
	Broken string
}

// Schedule runs the schedule of one seed in w, from its faults through to the
// calm at its end.
func Schedule(w *World, seed uint64) Result {
	rng := rand.New(rand.NewPCG(seed, 0x76727270))
	w.Reset(randomShape(rng), rng)
	unit := w.slowest()
	length := w.between(20*unit, 120*unit)
	mean := w.between(2*unit, 20*unit)
	for at := w.between(0, 12*unit); at < length; at += w.between(0, 2*mean) {
		w.injectRandom(at, unit)
	}
	w.Run(length)
	if w.truth.Broken == "" {
		w.calm()
	}
	t := &w.truth
	return Result{t.Moves, t.Sent, t.Faults, t.HandOvers, t.TakeOvers, w.now, t.Broken}
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

func randomShape(rng *rand.Rand) Shape {
	s := Shape{Planes: pick(rng, 1, 1, 1, 2)}
	n := pick(rng, 2, 2, 3, 3, 4, 5)
	proto := vrrp.Config{
		Version: 3, Family: vrrp.IPv4,
		Interval: pick(rng, 10*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond, time.Second),
		Preempt:  rng.IntN(3) == 0,
		Stay:     rng.IntN(4) == 0,
	}
	if rng.IntN(8) == 0 {
		proto.Version, proto.Interval = 2, pick(rng, time.Second, 2*time.Second)
	}
	if rng.IntN(3) == 0 {
		proto.PreemptDelay = proto.Interval * time.Duration(rng.IntN(20))
	}
	if rng.IntN(4) == 0 {
		proto.StartDelay = proto.Interval * time.Duration(rng.IntN(10))
	}
	s.Delay = proto.Interval * time.Duration(1+rng.IntN(20)) / 1000
	s.Late = proto.Interval * time.Duration(rng.IntN(pick(rng, 10, 60))) / 1000
	for i := range n {
		c := proto
		c.Priority = pick[uint8](rng, 1, 50, 100, 100, 150, 200, 254)
		if i == 0 && proto.Preempt && rng.IntN(4) == 0 {
			c.Owner, c.Priority = true, 255
		}
		s.Nodes = append(s.Nodes, c)
		s.Drift = append(s.Drift, 1+(rng.Float64()-0.5)/50)
	}
	return s
}

// weights says how often each kind of trouble starts.
var weights = []struct {
	weight int
	start  func(w *World, at, hold time.Duration, a, b int)
}{
	{6, between(Cut, Heal)},
	{4, between(CutOne, Heal)},
	{3, func(w *World, at, hold time.Duration, a, b int) {
		w.Inject(at, Fault{Do: Lossy, A: a, B: b, Plane: -1, P: pick(w.rng, 0.02, 0.1, 0.5, 0.8)})
		w.Inject(at+hold, Fault{Do: Heal, A: a, B: b, Plane: -1})
	}},
	{2, func(w *World, at, hold time.Duration, a, b int) {
		w.Inject(at, Fault{Do: Slow, A: a, B: b, Plane: -1, For: w.between(0, 5*w.slowest())})
		w.Inject(at+hold, Fault{Do: Heal, A: a, B: b, Plane: -1})
	}},
	{3, onPlane(Isolate, Rejoin)},
	{5, on(Kill, Start)},
	{5, on(Freeze, Thaw)},
	{3, on(Suspend, Resume)},
	{5, on(Stop, Start)},
	{3, on(Release, Release)},
	{4, on(Sicken, Cure)},
	{4, func(w *World, at, hold time.Duration, a, _ int) {
		w.Inject(at, Fault{Do: Weight, A: a, P: float64(pick(w.rng, 1, 40, 120, 220))})
		w.Inject(at+hold, Fault{Do: Weight, A: a, P: float64(w.nodes[a].cfg.Priority)})
	}},
}

// between is trouble on the way from one node to another, on one plane only
// or on all of them.
func between(do, undo Action) func(*World, time.Duration, time.Duration, int, int) {
	return func(w *World, at, hold time.Duration, a, b int) {
		plane := w.rng.IntN(w.shape.Planes+1) - 1
		w.Inject(at, Fault{Do: do, A: a, B: b, Plane: plane})
		w.Inject(at+hold, Fault{Do: undo, A: a, B: b, Plane: plane})
	}
}

func onPlane(do, undo Action) func(*World, time.Duration, time.Duration, int, int) {
	return func(w *World, at, hold time.Duration, a, _ int) { between(do, undo)(w, at, hold, a, a) }
}

func on(do, undo Action) func(*World, time.Duration, time.Duration, int, int) {
	return func(w *World, at, hold time.Duration, a, _ int) {
		w.Inject(at, Fault{Do: do, A: a, Plane: -1})
		w.Inject(at+hold, Fault{Do: undo, A: a, Plane: -1})
	}
}

// injectRandom starts some trouble at a time. A quarter of it lasts to the
// end.
func (w *World) injectRandom(at, unit time.Duration) {
	total := 0
	for _, k := range weights {
		total += k.weight
	}
	draw := w.rng.IntN(total)
	a := w.rng.IntN(w.n)
	b := (a + 1 + w.rng.IntN(w.n-1)) % w.n
	hold := w.between(unit/10, 15*unit)
	if w.rng.IntN(4) == 0 {
		hold = time.Hour
	}
	for _, k := range weights {
		if draw -= k.weight; draw < 0 {
			k.start(w, at, hold, a, b)
			return
		}
	}
}

package sim

import (
	"math/rand/v2"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/leader"
)

var alphabet = []string{"a", "b", "c", "d", "e", "f", "g", "h"}

// Result is what a schedule came to.
type Result struct {
	Moves, Calls, Idle, Faults int
	Simulated                  time.Duration
	// Broken is the broken invariant in words; empty is good.
	Broken string
}

// Schedule runs the schedule of one seed in w, from its faults through to the
// calm at its end.
func Schedule(w *World, seed uint64) Result { return w.schedule(seed, nil) }

// schedule lets sabotage change what the agents work by.
func (w *World) schedule(seed uint64, sabotage func(*leader.Config)) Result {
	rng := rand.New(rand.NewPCG(seed, 0x486f6c6466617374))
	w.Reset(randomShape(rng), rng)
	if sabotage != nil {
		sabotage(&w.cfg)
	}
	length := w.between(15*time.Second, 75*time.Second)
	mean := w.between(time.Second, 12*time.Second)
	for at := w.between(time.Second, 8*time.Second); at < length; at += w.between(0, 2*mean) {
		w.injectRandom(at)
	}
	w.Run(length)
	w.calm()
	w.CheckCalm()
	return Result{w.truth.Moves, w.truth.Calls, w.truth.Idle, len(w.faults), w.now, w.truth.Broken}
}

func randomShape(rng *rand.Rand) Shape {
	voters := []int{3, 3, 3, 4, 5, 5, 7}[rng.IntN(7)]
	s := Shape{Config: leader.Default(), Leader: rng.IntN(voters)}
	if rng.IntN(8) == 0 {
		s.Learners = 1
	}
	s.Names = alphabet[:voters+s.Learners]
	if rng.IntN(4) == 0 {
		s.Config = leader.Seed()
	}
	if rng.IntN(6) == 0 {
		s.Zones = s.Names
		s.Config.Preferred, s.Config.ReturnAfter = s.Names[rng.IntN(voters)], 5*time.Second
		s.Config.ReturnLimit = []float64{0.1, 0.45}[rng.IntN(2)]
	}
	s.Rate = []float64{0, 100, 3000}[rng.IntN(3)]
	s.Lost = []float64{0, 0, 0.1, 0.3}[rng.IntN(4)]
	s.Late = []float64{0, 0, 0.05, 0.3}[rng.IntN(4)]
	s.NoClients, s.NoMesh = rng.IntN(4) == 0, rng.IntN(4) == 0
	s.NoMetrics = rng.IntN(8) == 0
	return s
}

// weights says how often each kind of trouble starts.
var weights = []struct {
	weight int
	start  func(w *World, at time.Duration, a, b int, hold time.Duration)
}{
	{10, pairwise(Cut)},
	{3, pairwise(CutOne)},
	{2, pairwise(Block)},
	{2, func(w *World, at time.Duration, a, b int, hold time.Duration) { // expired rules: nobody dials
		w.Inject(at, Fault{Do: Block, A: a, B: b})
		w.Inject(at, Fault{Do: Block, A: b, B: a})
		w.Inject(at+hold, Fault{Do: Heal, A: a, B: b})
	}},
	{2, func(w *World, at time.Duration, a, b int, hold time.Duration) {
		p := []float64{0.05, 0.1, 0.5, 0.7}[w.rng.IntN(4)]
		w.Inject(at, Fault{Do: Lossy, A: a, B: b, P: p})
		w.Inject(at+hold, Fault{Do: Heal, A: a, B: b})
	}},
	{3, flap},
	{3, single(Isolate, Rejoin)},
	{3, single(Crash, Start)},
	{3, func(w *World, at time.Duration, a, _ int, _ time.Duration) { // a quick restart
		w.Inject(at, Fault{Do: Crash, A: a})
		w.Inject(at+w.between(300*time.Millisecond, 4*time.Second), Fault{Do: Start, A: a})
	}},
	{3, single(Fail, Recover)},
	{2, single(KillAgent, StartAgent)},
	{4, func(w *World, at time.Duration, a, _ int, _ time.Duration) {
		w.Inject(at, Fault{Do: KillAgent, A: a})
		w.Inject(at+w.between(50*time.Millisecond, 2*time.Second), Fault{Do: StartAgent, A: a})
	}},
	{2, func(w *World, at time.Duration, a, b int, _ time.Duration) {
		w.Inject(at, Fault{Do: Freeze, A: a, For: w.between(500*time.Millisecond, 12*time.Second), P: float64(b % 2)})
	}},
	{2, func(w *World, at time.Duration, a, _ int, _ time.Duration) {
		w.Inject(at, Fault{Do: Defrag, A: a, For: w.between(500*time.Millisecond, 8*time.Second)})
	}},
	{1, single(Slow, Cure)},
	{1, single(Stall, Cure)},
	{2, func(w *World, at time.Duration, a, b int, hold time.Duration) { // the leader's disk, or all of a storage
		w.Inject(at, Fault{Do: Stall, A: w.shape.Leader})
		if hold%3 == 0 {
			w.Inject(at+w.between(0, 30*time.Second), Fault{Do: Stall, A: b})
		}
		w.Inject(at+hold, Fault{Do: Cure, A: w.shape.Leader})
	}},
	{1, single(Alarm, Cure)},
	{2, single(Expire, Cure)},
	{1, single(Mute, Cure)},
	{1, func(w *World, at time.Duration, a, _ int, _ time.Duration) { w.Inject(at, Fault{Do: Remove, A: a}) }},
	{1, func(w *World, at time.Duration, a, _ int, _ time.Duration) {
		w.Inject(at, Fault{Do: Promote, A: w.n - 1})
	}},
}

func pairwise(do Action) func(*World, time.Duration, int, int, time.Duration) {
	return func(w *World, at time.Duration, a, b int, hold time.Duration) {
		w.Inject(at, Fault{Do: do, A: a, B: b})
		w.Inject(at+hold, Fault{Do: Heal, A: a, B: b})
	}
}

func single(do, undo Action) func(*World, time.Duration, int, int, time.Duration) {
	return func(w *World, at time.Duration, a, _ int, hold time.Duration) {
		w.Inject(at, Fault{Do: do, A: a})
		w.Inject(at+hold, Fault{Do: undo, A: a})
	}
}

// flap cuts and heals a link every few seconds.
func flap(w *World, at time.Duration, a, b int, hold time.Duration) {
	half := w.between(time.Second, 8*time.Second)
	for end := at + min(hold, 40*time.Second); at < end; at += 2 * half {
		w.Inject(at, Fault{Do: Cut, A: a, B: b})
		w.Inject(at+half, Fault{Do: Heal, A: a, B: b})
	}
}

// injectRandom starts some trouble at a time. Half of it lasts to the end.
func (w *World) injectRandom(at time.Duration) {
	total := 0
	for _, k := range weights {
		total += k.weight
	}
	pick := w.rng.IntN(total)
	a := w.rng.IntN(w.n)
	b := (a + 1 + w.rng.IntN(w.n-1)) % w.n
	hold := w.between(time.Second, 30*time.Second)
	if w.rng.IntN(2) == 0 {
		hold = time.Hour
	}
	for _, k := range weights {
		if pick -= k.weight; pick < 0 {
			k.start(w, at, a, b, hold)
			return
		}
	}
}

// calm lets the world come to rest as it stands: what is cut stays cut, but
// nothing changes any more, and reports arrive.
func (w *World) calm() {
	w.quiesce()
	w.Run(30 * time.Second)
	for range 100 {
		l := w.leaderNow()
		if l < 0 || !w.agents[l].up {
			break
		}
		a, cfg := &w.agents[l], w.shape.Config
		if a.refused != leader.Damped && a.refused != leader.BackingOff && a.refused != leader.Settling &&
			a.state.Penalty(cfg, a.clock(w)) < cfg.PenaltyLimit && w.now-w.truth.last > cfg.Hold+cfg.Settle {
			break
		}
		w.Run(5 * time.Second)
	}
	w.Run(25 * time.Second)
}

// quiesce drops the faults still to come, ends loss and lateness, and lets
// what ends by itself end.
func (w *World) quiesce() {
	kept := w.queue.heap[:0]
	for _, e := range w.queue.heap {
		if e.kind != evFault || w.faults[e.x].Do == Served {
			kept = append(kept, e)
		}
	}
	w.queue.restore(kept)
	w.shape.Lost, w.shape.Late = 0, 0
	w.net.loss = [most][most]float64{}
	w.refresh()
}

package sim

import (
	"math/rand/v2"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// Result is what a schedule came to.
type Result struct {
	Faults, Commits, Marks, Adoptions, Withdrawals, Takeovers, Objects, Late int
	Simulated                                                                time.Duration
	// Broken is the broken invariant in words; empty is good.
	Broken string
}

// rules are taken away, or bent, to see that the judge notices.
type rules struct {
	// distort changes what agents are shown, mangle what they are told to do.
	distort func(w *World, v *plan.View)
	mangle  func(w *World, a *agent, all []plan.Write) []plan.Write
	// settings changes what agents work by; the judge keeps the real ones.
	settings func(*plan.Settings)
	// lawless agents do not wait for the Lease.
	lawless bool
	// hands are in our objects all the time.
	hands bool
	// dawdling agents leave a Lease alone for longer than a turn, and sulking ones
	// what they were refused for good.
	dawdling, sulking bool
	// blind agents do not know whom their node does not reach.
	blind bool
	// trusting agents take Leases from their watches when they read anew.
	trusting bool
}

// Schedule runs the schedule of one seed in w, from its faults through to the
// calm at its end.
func Schedule(w *World, seed uint64) Result { return w.schedule(seed, rules{}) }

func (w *World) schedule(seed uint64, bent rules) Result {
	rng := rand.New(rand.NewPCG(seed, 0x736c69636573))
	w.Reset(randomShape(rng), rng)
	w.rules = bent
	if w.shape.Lost > 0 || w.shape.Late > 0 {
		w.judge.lossless = forever
	}
	if bent.settings != nil {
		bent.settings(&w.cfg)
		for i := range w.n {
			w.agents[i].observer, w.agents[i].cfg = plan.NewObserver(w.cfg), w.settings(i)
		}
	}
	length := w.between(30*time.Second, 150*time.Second)
	mean := w.between(2*time.Second, 20*time.Second)
	kinds := menu(rng, bent.hands)
	for at := w.between(0, 20*time.Second); at < length; at += w.between(0, 2*mean) {
		w.injectRandom(at, kinds)
	}
	if w.shape.Reconcile && rng.IntN(2) == 0 {
		w.switchOver(w.between(10*time.Second, 60*time.Second))
	}
	w.Run(length)
	if w.judge.broken == "" {
		w.calm()
	}
	j := &w.judge
	return Result{len(w.faults), j.Commits, j.Marks, j.Adoptions, j.Withdrawals, j.Takeovers, j.Objects, j.Late, w.now, j.broken}
}

// switchOver restarts one apiserver after another without its reconciler.
func (w *World) switchOver(at time.Duration) {
	for i := range w.n {
		w.Inject(at, Fault{Do: Stop, A: i})
		at += w.between(time.Second, 5*time.Second)
		w.Inject(at, Fault{Do: Start, A: i, P: -1})
		at += w.between(time.Second, 8*time.Second)
	}
}

func randomShape(rng *rand.Rand) Shape {
	s := Shape{Settings: plan.Default(), Dual: rng.IntN(6) == 0, Reconcile: rng.IntN(5) == 0}
	n := []int{2, 3, 3, 3, 3, 4, 5}[rng.IntN(7)]
	for i := range n {
		zone := zoneNames[i]
		if i > 0 && rng.IntN(5) == 0 {
			zone = zoneNames[i-1]
		}
		s.Zones = append(s.Zones, zone)
	}
	if rng.IntN(2) == 0 {
		s.Settings.Witnesses = []string{s.Zones[n-1]}
	}
	for range rng.IntN(3) {
		s.Workers = append(s.Workers, zoneNames[rng.IntN(allZones)])
	}
	s.Differ = rng.IntN(4) == 0
	if rng.IntN(12) == 0 {
		for range n {
			s.Ports = append(s.Ports, 6443+1000*rng.Int32N(2))
		}
	}
	s.Settings.Traffic = "PreferSameZone"
	s.Lost = []float64{0, 0, 0, 0.03, 0.2}[rng.IntN(5)]
	s.Late = []float64{0, 0, 0, 0.05, 0.3}[rng.IntN(5)]
	s.Lag = []time.Duration{30, 30, 100, 300}[rng.IntN(4)] * time.Millisecond
	return s
}

// menu is the trouble of one schedule: hands in our objects and changes of
// Nodes excuse much, so most schedules do without.
func menu(rng *rand.Rand, hands bool) []trouble {
	kinds := append([]trouble(nil), faults...)
	if rng.IntN(3) == 0 {
		kinds = append(kinds, moves...)
	}
	if rng.IntN(4) == 0 || hands {
		kinds = append(kinds, trouble{6, func(w *World, at time.Duration, a int, _ time.Duration) {
			w.Inject(at, Fault{Do: Tamper, A: a, P: w.rng.IntN(18)})
		}})
	}
	return kinds
}

// trouble is one kind of it, and how often it starts.
type trouble struct {
	weight int
	start  func(w *World, at time.Duration, a int, hold time.Duration)
}

var faults = []trouble{
	{4, spanning(Kill, Start)},
	{2, spanning(Stop, Start)},
	{3, func(w *World, at time.Duration, a int, hold time.Duration) { // restarted with the other flag
		w.Inject(at, Fault{Do: Stop, A: a})
		w.Inject(at+w.between(time.Second, 10*time.Second), Fault{Do: Start, A: a, P: 1 - 2*min(w.rng.IntN(5), 1)})
	}},
	{4, spanning(Hang, Resume)},
	{5, spanning(Isolate, Rejoin)},
	{3, spanning(Fail, Recover)},
	{3, spanning(KillAgent, StartAgent)},
	{3, func(w *World, at time.Duration, a int, _ time.Duration) {
		w.Inject(at, Fault{Do: KillAgent, A: a})
		w.Inject(at+w.between(10*time.Millisecond, 2*time.Second), Fault{Do: StartAgent, A: a})
	}},
	{3, func(w *World, at time.Duration, a int, _ time.Duration) {
		w.Inject(at, Fault{Do: Pause, A: a, For: w.between(100*time.Millisecond, 60*time.Second)})
	}},
	{3, spanning(CutAPI, HealAPI)},
	{3, func(w *World, at time.Duration, a int, _ time.Duration) {
		w.Inject(at, Fault{Do: Freeze, A: a, For: w.between(time.Second, 35*time.Second)})
	}},
	{4, func(w *World, at time.Duration, a int, hold time.Duration) { // all at once, or nearly
		do, undo := Kill, Start
		if w.rng.IntN(2) == 0 {
			do, undo = Hang, Resume
		}
		for i := range w.n {
			if w.rng.IntN(4) > 0 {
				w.Inject(at+w.between(0, time.Second), Fault{Do: do, A: i})
				w.Inject(at+hold+w.between(0, time.Second), Fault{Do: undo, A: i})
			}
		}
	}},
	{1, func(w *World, at time.Duration, a int, _ time.Duration) { w.Inject(at, Fault{Do: Collect, A: a}) }},
	{3, func(w *World, at time.Duration, a int, hold time.Duration) {
		w.Inject(at, Fault{Do: Part, A: a, P: w.rng.IntN(w.n), For: hold})
	}},
	{2, func(w *World, at time.Duration, a int, _ time.Duration) {
		w.Inject(at, Fault{Do: Refuse, A: a, For: w.between(time.Second, 40*time.Second), P: w.rng.IntN(4)})
	}},
}

var moves = []trouble{
	{4, func(w *World, at time.Duration, _ int, _ time.Duration) {
		w.Inject(at, Fault{Do: Populate, Zone: zoneNames[w.rng.IntN(allZones)], P: w.rng.IntN(2)})
	}},
	{3, func(w *World, at time.Duration, a int, _ time.Duration) {
		zone := zoneNames[w.rng.IntN(w.n+1)]
		if w.rng.IntN(5) == 0 {
			zone = ""
		}
		w.Inject(at, Fault{Do: Relabel, A: a, Zone: zone})
	}},
}

func spanning(do, undo Action) func(*World, time.Duration, int, time.Duration) {
	return func(w *World, at time.Duration, a int, hold time.Duration) {
		w.Inject(at, Fault{Do: do, A: a})
		w.Inject(at+hold, Fault{Do: undo, A: a})
	}
}

// injectRandom starts some trouble at a time. A third of it lasts to the end.
func (w *World) injectRandom(at time.Duration, kinds []trouble) {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	pick := w.rng.IntN(total)
	a := w.rng.IntN(w.n)
	hold := w.between(500*time.Millisecond, 60*time.Second)
	if w.rng.IntN(3) == 0 {
		hold = time.Hour
	}
	for _, k := range kinds {
		if pick -= k.weight; pick < 0 {
			k.start(w, at, a, hold)
			return
		}
	}
}

package bfd

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func setting(t *testing.T, env string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(env)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", env, err)
	}
	return n
}

// TestSchedules runs randomised schedules of faults between two sessions;
// HOLDFAST_SIM_SCHEDULES and HOLDFAST_SIM_SEED run more, and one again.
func TestSchedules(t *testing.T) {
	count := uint64(2000)
	if testing.Short() || raceEnabled {
		count = 150
	}
	count = setting(t, "HOLDFAST_SIM_SCHEDULES", count)
	first := setting(t, "HOLDFAST_SIM_SEED", uint64(time.Now().UnixNano())%1e12)
	t.Logf("seeds %d to %d", first, first+count-1)
	var (
		all                           sync.WaitGroup
		next, broken, faults, changes atomic.Uint64
		began, cores                  = time.Now(), runtime.GOMAXPROCS(0)
	)
	for range cores {
		all.Go(func() {
			for n := next.Add(1); n <= count && broken.Load() < 10; n = next.Add(1) {
				p := newPlay(first + n - 1)
				if err := p.run(); err != nil {
					broken.Add(1)
					t.Errorf("seed %d at %v: %v\na:%s\nb:%s", first+n-1, p.now, err, p.a.states(), p.b.states())
				}
				faults.Add(uint64(p.faults))
				changes.Add(uint64(p.changes))
			}
		})
	}
	all.Wait()
	t.Logf("%d schedules in %v: %d faults, %d changes of state", count, time.Since(began).Round(ms), faults.Load(), changes.Load())
}

// play is a world in which things go wrong for a while and then no more.
type play struct {
	*world
	faults, changes int
	discr           uint32
	watched         map[*end]*watch
}

// watch is what the invariants need of an end besides its session.
type watch struct {
	seen   int           // of end.sent
	last   *frame        // the last packet that was not a mere Final
	wokeAt time.Duration // after a freeze
	heard  time.Duration // when the last packet arrived, by the end's clock
}

func newPlay(seed uint64) *play {
	random := rand.New(rand.NewPCG(seed, 1))
	p := &play{world: newWorld(seed, timersOf(random), timersOf(random)), discr: 100}
	p.watched = map[*end]*watch{p.a: {}, p.b: {}}
	p.a.rate, p.b.rate = 0.99+0.02*random.Float64(), 0.99+0.02*random.Float64()
	return p
}

func timersOf(random *rand.Rand) Timers {
	choices := []time.Duration{20 * ms, 50 * ms, 100 * ms, 300 * ms, 1500 * ms}
	pick := func() time.Duration { return choices[random.IntN(len(choices))] }
	return Timers{DesiredMinTx: pick(), RequiredMinRx: pick(), DetectMult: uint8(2 + random.IntN(4))}
}

func (p *play) run() error {
	p.start()
	for until := p.now + 20*time.Second; p.now < until; {
		if err := p.pass(time.Duration(p.random.Int64N(int64(1500 * ms)))); err != nil {
			return err
		}
		p.fault()
	}
	p.calm()
	// The longest detection time that may be left, and a handshake.
	if err := p.pass(5*1600*ms + 3*time.Second); err != nil {
		return err
	}
	settled := p.changes
	if err := p.pass(4 * time.Second); err != nil {
		return err
	}
	if p.changes != settled {
		return fmt.Errorf("%d changes of state after things calmed down", p.changes-settled)
	}
	if err := p.agreed(p.a); err != nil {
		return err
	}
	return p.agreed(p.b)
}

// agreed checks what both ends have to make of each other's timers.
func (p *play) agreed(e *end) error {
	mine, theirs := e.session, e.other.session
	tx := max(mine.want.DesiredMinTx, theirs.want.RequiredMinRx)
	detection := time.Duration(theirs.want.DetectMult) * max(mine.want.RequiredMinRx, theirs.want.DesiredMinTx)
	switch {
	case mine.state != Up:
		return fmt.Errorf("%s is %v after things calmed down", e.name, mine.state)
	case mine.agreed() != tx || mine.detection() != detection:
		return fmt.Errorf("%s sends every %v, wanted %v; detects after %v, wanted %v", e.name, mine.agreed(), tx, mine.detection(), detection)
	case mine.poll.active && !mine.poll.sent:
		return fmt.Errorf("%s still polls", e.name)
	}
	return nil
}

// pass lets d pass in small steps and checks the invariants after each.
func (p *play) pass(d time.Duration) error {
	for until := p.now + d; p.now < until; {
		p.now = p.next(until)
		p.arrive()
		for e, w := range p.watched {
			for _, f := range e.socket {
				if !e.frozen {
					w.heard = max(w.heard, e.local(f.at))
				}
			}
		}
		for _, e := range []*end{p.a, p.b} {
			p.wake(e)
			if err := p.check(e, p.watched[e]); err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
		}
	}
	return nil
}

func (p *play) check(e *end, w *watch) error {
	for ; w.seen < len(e.sent); w.seen++ {
		if err := checkPacket(e, w, &e.sent[w.seen]); err != nil {
			return err
		}
	}
	p.changes += len(e.changes)
	e.changes = e.changes[:0]
	s, now := e.session, e.local(p.now)
	awake := !e.frozen && now-w.wokeAt > s.detection()+2*s.interval()
	if silent := now - w.heard; s.state == Up && awake && silent > s.detection()+ms {
		return fmt.Errorf("Up after a silence of %v with a detection time of %v", silent, s.detection())
	}
	return nil
}

func checkPacket(e *end, w *watch, f *frame) error {
	p := f.packet
	if got, err := Parse(p.Append(nil)); err != nil || got != p || p.Poll && p.Final {
		return fmt.Errorf("sends %+v, which reads as %+v, %v", p, got, err)
	}
	if p.State != Up && p.DesiredMinTx < slowest {
		return fmt.Errorf("sends %+v while not Up", p)
	}
	if p.Final && w.last != nil && w.last.packet.State == p.State {
		return nil
	}
	if w.last != nil && w.last.packet.State == p.State && w.last.packet.MyDiscr == p.MyDiscr {
		pace := min(f.pace, w.last.pace)
		least := pace * jitterFrom / 100
		if gap := e.local(f.at) - e.local(w.last.at); gap < least-time.Microsecond {
			return fmt.Errorf("sends after %v where %v are agreed", gap, pace)
		}
	}
	copied := *f
	w.last = &copied
	return nil
}

func (p *play) fault() {
	p.faults++
	e := p.a
	if p.random.IntN(2) == 0 {
		e = p.b
	}
	switch p.random.IntN(10) {
	case 0:
		p.cut()
	case 1:
		p.lose = func(to *end) bool { return to == e }
	case 2:
		rate := p.random.Float64() * 0.6
		p.lose = func(*end) bool { return p.random.Float64() < rate }
	case 3, 4:
		p.heal()
	case 5:
		most := 1 + p.random.Int64N(int64(200*ms))
		p.delay = func(*end) time.Duration { return time.Duration(p.random.Int64N(most)) }
	case 6:
		p.freeze(e, !e.frozen)
	case 7:
		p.discr++
		p.watched[e].last = nil
		e.frozen = false
		p.restart(e, p.discr, timersOf(p.random))
	case 8:
		p.do(e, e.session.SetTimers(timersOf(p.random)))
	case 9:
		p.toggle(e)
	}
}

func (p *play) freeze(e *end, frozen bool) {
	e.frozen = frozen
	if !frozen {
		p.watched[e].wokeAt = e.local(p.now)
	}
}

func (p *play) toggle(e *end) {
	switch {
	case e.frozen:
	case e.session.State() == AdminDown:
		p.do(e, e.session.AdminUp(e.local(p.now)))
	default:
		p.do(e, e.session.AdminDown(e.local(p.now)))
	}
}

func (p *play) calm() {
	p.heal()
	p.delay = func(*end) time.Duration { return ms }
	for _, e := range []*end{p.a, p.b} {
		p.freeze(e, false)
		p.wake(e)
		p.do(e, e.session.AdminUp(e.local(p.now)))
	}
}

// flaps counts how often a session fails in the given time with 100 ms and 3.
func flaps(seed uint64, long time.Duration, lose func(*world) func(*end) bool) int {
	w := newWorld(seed, hundred(), hundred())
	w.start()
	w.run(5 * time.Second)
	w.lose = lose(w)
	n := 0
	for until := w.now + long; w.now < until; {
		w.run(w.now + time.Minute)
		for _, e := range []*end{w.a, w.b} {
			for _, c := range e.changes {
				if c.Failed() {
					n++
				}
			}
			e.changes, e.sent = nil, nil
		}
	}
	return n
}

func TestLossyPathsDoNotFlap(t *testing.T) {
	long := 10 * time.Hour
	if raceEnabled || testing.Short() {
		long = time.Hour
	}
	two := func(w *world) func(*end) bool {
		return func(*end) bool { return w.random.Float64() < 0.02 }
	}
	bursts := func(w *world) func(*end) bool {
		return func(*end) bool { return w.now%(1370*ms) < 150*ms }
	}
	for name, lose := range map[string]func(*world) func(*end) bool{"2 % loss": two, "bursts of 150 ms": bursts} {
		if n := flaps(1, long, lose); n != 0 {
			t.Errorf("%s: %d failures in %v", name, n, long)
		}
	}
}

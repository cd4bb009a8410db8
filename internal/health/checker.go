package health

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Checker runs a Judge over a Prober: one goroutine, and one more for each
// probe in flight.
type Checker struct {
	prober  Prober
	judge   *Judge
	changed func(Verdict)

	start   time.Time // zero of the Judge's clock
	verdict atomic.Pointer[Verdict]

	evidence atomic.Uint32 // bit set of Evidence not yet handed to the Judge
	nudged   atomic.Bool
	signal   chan struct{} // one of the two above has something

	events chan Event
	probes sync.WaitGroup
	cancel map[uint64]context.CancelFunc // probes in flight
}

// NewChecker returns a Checker that owns p: Run closes it. changed, if not nil,
// is called with the new verdict after each change of its Grade or Suspect, by
// the goroutine of Run; it should not block. t must be valid.
func NewChecker(p Prober, t Timers, changed func(Verdict)) *Checker {
	c := &Checker{
		prober: p, judge: NewJudge(t, rand.Float64()), changed: changed,
		signal: make(chan struct{}, 1),
		events: make(chan Event, 4*maxInFlight), // as many as two probes can have to say
		cancel: map[uint64]context.CancelFunc{},
	}
	v := c.judge.Verdict()
	c.verdict.Store(&v)
	return c
}

// Verdict returns the verdict in force; cheap, from anywhere, also before and
// after Run.
func (c *Checker) Verdict() Verdict { return *c.verdict.Load() }

// Evidence reports what a client's connection met with. It never blocks and
// may be called from anywhere; equal reports in quick succession are one.
func (c *Checker) Evidence(e Evidence) {
	if e >= kindsOfEvidence || c.evidence.Load()&(1<<e) != 0 {
		return // unknown, or said already
	}
	c.evidence.Or(1 << e)
	c.wake()
}

// Nudge asks for a probe on a new connection now. It never blocks.
func (c *Checker) Nudge() {
	c.nudged.Store(true)
	c.wake()
}

func (c *Checker) wake() {
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

// Run checks until ctx ends, then ends the probes in flight and closes the
// Prober. It may be called once.
func (c *Checker) Run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		c.probes.Wait()
		c.prober.Close()
	}()
	c.start = time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Since(c.start)
		actions, wake := c.judge.Next(now)
		c.perform(ctx, actions)
		c.publish()
		if wake == Never {
			wake = now + time.Hour
		}
		timer.Reset(wake - now)
		c.wait(ctx, timer.C)
	}
}

// wait returns when something has happened, and has told the Judge of all of
// it: after a pause of this process both the timer and answers are due, and
// the answers must come first.
func (c *Checker) wait(ctx context.Context, alarm <-chan time.Time) {
	select {
	case <-ctx.Done():
		return
	case <-alarm:
	case ev := <-c.events:
		c.step(ev)
	case <-c.prober.Lost():
		c.step(Lost{})
	case <-c.signal:
		c.listen()
	}
	for {
		select {
		case ev := <-c.events:
			c.step(ev)
		case <-c.prober.Lost():
			c.step(Lost{})
		default:
			return
		}
	}
}

// listen hands over what came from outside.
func (c *Checker) listen() {
	said := c.evidence.Swap(0)
	for e := range Evidence(kindsOfEvidence) {
		if said&(1<<e) != 0 {
			c.step(e)
		}
	}
	if c.nudged.Swap(false) {
		c.step(Nudge{})
	}
}

func (c *Checker) step(ev Event) {
	if a, ok := ev.(Answered); ok {
		c.end(a.Probe)
	}
	c.judge.Step(time.Since(c.start), ev)
}

func (c *Checker) perform(ctx context.Context, actions []Action) {
	for _, a := range actions {
		switch a.Kind {
		case Start:
			c.begin(ctx, a)
		case Cancel:
			c.end(a.Probe)
		}
	}
}

func (c *Checker) begin(ctx context.Context, a Action) {
	probe, cancel := context.WithCancel(ctx)
	c.cancel[a.Probe] = cancel
	c.probes.Go(func() {
		tell := func(ev Event) {
			select {
			case c.events <- ev:
			case <-ctx.Done():
			}
		}
		r := c.prober.Probe(WithReport(probe, func(s Stage) { tell(Progress{a.Probe, s}) }), a.Fresh)
		tell(Answered{a.Probe, r})
	})
}

func (c *Checker) end(probe uint64) {
	if cancel, ok := c.cancel[probe]; ok {
		cancel()
		delete(c.cancel, probe)
	}
}

// publish makes the Judge's verdict visible, and known if it matters.
func (c *Checker) publish() {
	v, old := c.judge.Verdict(), c.verdict.Load()
	v.At = old.At
	if v.Since != old.Since || v.At.IsZero() {
		v.At = c.start.Add(v.Since)
	}
	if v == *old {
		return
	}
	c.verdict.Store(&v)
	if c.changed != nil && (v.Grade != old.Grade || v.Suspect != old.Suspect) {
		c.changed(v)
	}
}

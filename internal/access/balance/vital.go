package balance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
)

// Conditions of /readyz and /healthz.
const (
	condFrontends = "frontends" // every frontend and route has a backend to offer
	condServing   = "serving"   // it accepts clients: bad while it drains
	condLoop      = "loop"      // event loops and steering go round
)

// judgeReady keeps /readyz: every frontend and every route has somebody to
// offer.
func (p *process) judgeReady() {
	pools := p.poolsOf("")
	slices.SortFunc(pools, func(a, b *pool) int { return cmp.Compare(a.name, b.name) })
	var without error
	for _, pool := range pools {
		if without == nil && pool.view.Load().table.Usable() == 0 {
			without = fmt.Errorf("frontend %s has no backend that is ready", pool.name)
		}
	}
	p.ready.Set(condFrontends, without)
}

// mostMissed is how many looks in a row, a second apart, may find no sign of
// life: a machine that stops for seconds is no reason to be restarted. Looks
// are counted instead of time, which passes while the machine stands still.
const mostMissed = 10

// pulse is the pure part of /healthz.
type pulse struct{ loops, steering int }

// look takes whether there was a sign of life since the last look.
func (v *pulse) look(loops, steering bool) error {
	v.loops, v.steering = missed(v.loops, loops), missed(v.steering, steering)
	switch {
	case v.loops >= mostMissed:
		return errors.New("an event loop does not answer; clients of it are stuck")
	case v.steering >= mostMissed:
		return errors.New("signals are not heeded")
	}
	return nil
}

func missed(before int, sign bool) int {
	if sign {
		return 0
	}
	return before + 1
}

// feelPulse keeps /healthz.
func (p *process) feelPulse(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var v pulse
	answered, steered := p.engine.Pulse(), uint64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		loops := false
		select {
		case <-answered:
			loops, answered = true, p.engine.Pulse()
		default:
		}
		now := p.steered.Load()
		p.alive.Set(condLoop, v.look(loops, now != steered || p.isClosing()))
		steered = now
	}
}

// retryEvery is how often a telemetry port that is taken is tried again.
const retryEvery = 500 * time.Millisecond

// serveTelemetry waits for the port where it is taken: a process that hands
// over keeps it as long as its listeners. "" is no telemetry.
func (p *process) serveTelemetry(ctx context.Context, listen string) {
	defer close(p.quiet)
	o := telemetry.Outlet{
		Settings: telemetry.Settings{Listen: listen}, Registry: p.registry, Alive: p.alive, Ready: p.ready, Status: p.handler(), Again: retryEvery,
		Log: p.log, Unserved: "telemetry is not served; clients are, and it is tried again",
	}
	o.Serve(ctx)
}

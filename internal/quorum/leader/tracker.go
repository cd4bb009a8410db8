package leader

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/hysteresis"
)

// Timing of the probes. A cut has to be certain in under a second: a steady
// probe starts at most steady after it, is given up after its timeout, and
// the burst needs (burst-1)*spacing more plus one timeout.
// With a LAN round trip that is 500 + 200 + 120 + 200 ms at worst.
type probeTiming struct {
	Steady   time.Duration // interval of steady probes
	Burst    int           // fresh probes after a failed one; 0 means none
	Spacing  time.Duration // between probes of a burst
	Fresh    time.Duration // how often a steady probe uses a fresh connection
	Identity time.Duration // how often /members is asked
	Fall     int           // failures in a row that make a link Down
	Rise     int           // answers in a row that make it Up again
	Floor    time.Duration // shortest probe timeout
	Ceiling  time.Duration // longest
}

func defaultTiming() probeTiming {
	return probeTiming{
		Steady: 500 * time.Millisecond, Burst: 3, Spacing: 60 * time.Millisecond,
		Fresh: 10 * time.Second, Identity: time.Minute,
		Fall: 4, Rise: 10, Floor: 200 * time.Millisecond, Ceiling: time.Second,
	}
}

// seedTiming is the documented behaviour of the seed: one probe a second, down
// after 3, up after 10.
func seedTiming() probeTiming {
	t := defaultTiming()
	t.Steady, t.Burst, t.Fall, t.Floor = time.Second, 0, 3, time.Second
	return t
}

// lossWindow is over how long losses are counted, lossLeast how many probes
// it takes before they are believed (10 s of steady probes). 20-50 % loss
// hurts raft but hides from "failures in a row".
const (
	lossWindow = 30 * time.Second
	lossLeast  = 20
)

// tracker turns probe results of one link into its state. It is pure: time
// comes in as monotonic durations.
type tracker struct {
	timing probeTiming
	filter hysteresis.Filter
	window hysteresis.Window
	srtt   time.Duration
}

func newTracker(timing probeTiming) *tracker {
	return &tracker{
		timing: timing,
		filter: hysteresis.Filter{Fall: timing.Fall, Rise: timing.Rise},
		window: hysteresis.Window{Length: lossWindow},
	}
}

// steady takes a steady probe, which also counts for the loss. rtt is 0 where
// the probe opened a connection: three round trips are not one.
func (t *tracker) steady(now, rtt time.Duration, ok bool) {
	t.window.Observe(now, ok)
	if ok && rtt > 0 {
		t.smooth(rtt)
	}
	t.record(now, ok)
}

// record takes one result, of a steady probe or of a burst.
func (t *tracker) record(now time.Duration, ok bool) {
	if t.filter.Observe(now, ok) && ok {
		t.window.Reset() // losses of the outage say nothing about now
	}
}

// smooth keeps the round trip as TCP does (RFC 6298: weight 1/8).
func (t *tracker) smooth(rtt time.Duration) {
	if t.srtt == 0 {
		t.srtt = rtt
		return
	}
	t.srtt += (rtt - t.srtt) / 8
}

// timeout is how long a probe may take: four smoothed round trips and 50 ms
// for a busy machine, within Floor and Ceiling. A fresh connection needs
// three round trips (TCP, TLS 1.3, request) instead of one.
func (t *tracker) timeout(fresh bool) time.Duration {
	d := 4*t.srtt + 50*time.Millisecond
	if fresh {
		d += 2 * t.srtt
	}
	return min(max(d, t.timing.Floor), t.timing.Ceiling)
}

func (t *tracker) state() LinkState {
	switch t.filter.Verdict() {
	case hysteresis.Good:
		return Up
	case hysteresis.Bad:
		return Down
	default:
		return Unknown
	}
}

// suspicious reports whether failures have begun that a burst should settle.
func (t *tracker) suspicious() bool { return t.state() != Down && t.filter.Doubt() }

func (t *tracker) view(now time.Duration) Link {
	return Link{State: t.state(), Since: t.filter.Since(now), Doubt: t.filter.Doubt(), RTT: t.srtt, Loss: t.window.Loss(now, lossLeast)}
}

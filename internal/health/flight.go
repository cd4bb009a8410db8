package health

import "time"

// maxInFlight bounds the probes of one server: one that may be stuck and one
// that finds out.
const maxInFlight = 2

// probe is one in flight.
type probe struct {
	id    uint64
	start time.Duration
	// heard is the last sign of the server's process, at first the start.
	heard time.Duration
	// fresh: on a new connection, asked for or not.
	fresh bool
	// recheck: begun to settle a suspicion, so that its own slowness is none.
	recheck bool
	stage   Stage
}

// flight holds the probes in flight, oldest first.
type flight []probe

func (f *flight) add(p probe) { *f = append(*f, p) }

func (f flight) find(id uint64) *probe {
	for i := range f {
		if f[i].id == id {
			return &f[i]
		}
	}
	return nil
}

// take removes and returns a probe.
func (f *flight) take(id uint64) (probe, bool) {
	return f.takeIf(func(p probe) bool { return p.id == id })
}

// expired removes and returns a probe that has been silent for limit.
func (f *flight) expired(now, limit time.Duration) (probe, bool) {
	return f.takeIf(func(p probe) bool { return now-p.heard >= limit })
}

// startedBefore removes and returns a probe begun before at.
func (f *flight) startedBefore(at time.Duration) (probe, bool) {
	return f.takeIf(func(p probe) bool { return p.start < at })
}

func (f *flight) takeIf(match func(probe) bool) (probe, bool) {
	for i, p := range *f {
		if match(p) {
			*f = append((*f)[:i], (*f)[i+1:]...)
			return p, true
		}
	}
	return probe{}, false
}

// newestFresh returns the newest probe on a new connection, or nil.
func (f flight) newestFresh() *probe {
	for i := len(f) - 1; i >= 0; i-- {
		if f[i].fresh {
			return &f[i]
		}
	}
	return nil
}

// forgive counts the last d as nobody's silence.
func (f flight) forgive(d time.Duration) {
	for i := range f {
		f[i].heard += d
	}
}

package plan

import "time"

// Phase is what is known of the apiservers' reconciler, which writes the slice
// kubernetes unless --endpoint-reconciler-type=none.
type Phase uint8

const (
	// Absent: there is no slice kubernetes.
	Absent Phase = iota
	// Unprobed: the slice is the reconciler's, and nobody knows if it writes.
	Unprobed
	// Probing: the probe stands on the slice, and not yet for long enough.
	Probing
	// Dormant: the probe has stood for Survive and nothing else was written.
	Dormant
	// Active: the reconciler writes.
	Active
	// TakenOver: the slice is ours.
	TakenOver
	// Occupied: the slice is neither ours nor the reconciler's.
	Occupied
)

var phaseNames = [...]string{"absent", "unprobed", "probing", "dormant", "active", "taken-over", "occupied"}

func (p Phase) String() string { return phaseNames[p] }

// watchman follows the slice kubernetes. The reconciler compares labels, so it
// erases a foreign one whenever it runs (pkg/controlplane/reconcilers,
// EnsureEndpointSliceFromEndpoints). A version that stands proves that nothing
// was written, so neither gaps nor lags of the watch can mislead: whoever takes
// over finds the version of the probe still there, or does not.
type watchman struct {
	phase   Phase // never Dormant: that is Probing for long enough
	version string
	since   time.Duration // of Probing: first sight of version; of Active: of the last write
	rest    time.Duration // how long Active is left alone after since
}

func (w *watchman) see(now time.Duration, c *Combined, cfg *Settings) {
	before := *w
	switch {
	case c == nil:
		*w = watchman{phase: Absent, version: "-"}
	case c.Owner == Ours:
		*w = watchman{phase: TakenOver, version: c.Version}
	case c.Owner == Foreign:
		*w = watchman{phase: Occupied, version: c.Version}
	case c.Version == before.version && before.phase != Active:
	case c.Version == before.version:
		if now-w.since >= w.rest {
			w.phase = Unprobed
		}
	case c.Probe != "":
		*w = watchman{phase: Probing, version: c.Version, since: now}
	case before.version == "":
		*w = watchman{phase: Unprobed, version: c.Version}
	case before.phase == Probing || before.phase == TakenOver:
		*w = watchman{phase: Active, version: c.Version, since: now, rest: cfg.Reprobe}
	default: // it was changed, or made, by somebody who is not us
		*w = watchman{phase: Active, version: c.Version, since: now, rest: cfg.ReprobeChanged}
	}
}

// state is the phase, and when time alone may change it.
func (w *watchman) state(now time.Duration, cfg *Settings) (Phase, time.Duration) {
	switch w.phase {
	case Probing:
		if left := w.since + cfg.Survive - now; left > 0 {
			return Probing, left
		}
		return Dormant, 0
	case Active:
		if left := w.since + w.rest - now; left > 0 {
			return Active, left
		}
		return Unprobed, 0
	}
	return w.phase, 0
}

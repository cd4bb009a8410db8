package topology

import "time"

// State is what one end knows about a link.
type State int8

const (
	// Unknown means no verdict: no report, a stale one, or too few probes.
	Unknown State = iota
	// Up means probes succeed.
	Up
	// Down means probes failed often enough in a row to be certain.
	Down
)

func (s State) String() string {
	switch s {
	case Up:
		return "up"
	case Down:
		return "down"
	default:
		return "unknown"
	}
}

// Link is one end's view of the link to another node, or a pair's joined view.
type Link struct {
	State State
	// Since is how long the link has been in State, by the observer's
	// monotonic clock, plus the age of the report it came in.
	Since time.Duration
	// Doubt says that the latest probes contradict State, though not yet often
	// enough. It is a thing of the moment: only an observer's own links have it.
	Doubt bool
	// RTT is the round trip of a probe on a kept-alive connection; 0 is unknown.
	RTT time.Duration
	// Loss is the share of lost probes in the last 30 s, counted from when the
	// link last turned Up and 0 until 10 s of samples stand: an outage that
	// is over must not look like a lossy link.
	Loss float64
}

// Join merges what the two ends of a pair say. One Up wins: either route
// carries raft. Two that agree on Up give the longer Since and the lower loss.
// An Up that the other end contradicts has stood only as long as the
// contradiction: in the first moments of a cut one end knows before the other.
// Without an Up, one Down decides, and of two the shorter Since: the pair was
// certainly down only when the later of them knew.
func Join(a, b Link) Link {
	if a.State == b.State {
		return joinEqual(a, b)
	}
	if b.State == Up || a.State == Unknown {
		a, b = b, a
	}
	// a is now Up with b Unknown or Down, or Down with b Unknown.
	if b.State == Down {
		a.Since = min(a.Since, b.Since)
	}
	return a
}

func joinEqual(a, b Link) Link {
	out := a
	out.Loss = min(a.Loss, b.Loss)
	out.RTT = knownMin(a.RTT, b.RTT)
	if a.State == Up {
		out.Since = max(a.Since, b.Since)
	} else {
		out.Since = min(a.Since, b.Since)
	}
	return out
}

func knownMin(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

package leader

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/topology"
)

// Config holds the limits that Decide works with; see Default and Seed.
type Config struct {
	// Settle is how long a better place has to stay better, counted from when
	// the links that make it so were certain.
	Settle time.Duration
	// LostFor is how long a voter's raft has to be without a leader, by the
	// words of a row, before it counts as lost. A restarted member finds its
	// leader within a heartbeat. So an agent whose member has no leader has to
	// publish every LostFor, and not only at the change.
	LostFor time.Duration
	// Fresh is the age up to which a row is believed: the publishing interval
	// of 5 s and 3 s for a slow route.
	Fresh time.Duration
	// Transit is how old a row may be when it is first seen. Where two ends
	// contradict each other, an Up counts only if it was said after the Down.
	Transit time.Duration
	// CatchUp is how many entries a target may lack. MoveLeader sends them
	// first, but writes stand still meanwhile.
	CatchUp uint64
	// MaxFsync is the slowest disk a target may have. Half an election
	// timeout (1 s): slower, and it would lose leadership again.
	MaxFsync time.Duration
	// SlowFor is how long readings in a row have to say that the leader's own disk is
	// slower than MaxFsync until leadership leaves it; 0 is never. Readings are 10 s
	// apart, give or take a twentieth, so three of them: a blip is in one, or in two
	// if it falls between them.
	SlowFor time.Duration
	// MaxLoss is the loss from which a link that is up does not count as
	// seen. Raft suffers from 20 %.
	MaxLoss float64
	// MembershipHold is the pause after any change of the member list.
	MembershipHold time.Duration

	// PenaltyHalfLife and PenaltyLimit are the damping: each move adds 1, half
	// is left after each half-life, and a move needs less than the limit.
	PenaltyHalfLife time.Duration
	PenaltyLimit    float64
	// MoveWithin is how soon after its record a move starts, or not at all.
	// Penalties begin to fade that much later, so that the wait runs from the
	// move and not from its record.
	MoveWithin time.Duration
	// Hold, when set, replaces the penalty by a plain wait after each move.
	Hold time.Duration

	// Backoff is the rest after a failed move, doubled up to BackoffMax.
	Backoff    time.Duration
	BackoffMax time.Duration

	// Zones is the order of zones where several members would do equally.
	Zones topology.Zones
	// Preferred is the zone that leadership returns to; empty is none.
	Preferred string
	// ReturnAfter is how long all links must have been good before a return.
	ReturnAfter time.Duration
	// QuietWindow is how long there must have been few proposals before one.
	QuietWindow time.Duration
	// ReturnLimit is the penalty below which a return may happen.
	ReturnLimit float64
	// LatencyBand is by what share the quorum round trip may grow in a return.
	LatencyBand float64
}

// Default is the profile for new installations.
func Default() Config {
	return Config{
		Settle:          2 * time.Second,
		LostFor:         time.Second,
		Fresh:           8 * time.Second,
		Transit:         5 * time.Second,
		CatchUp:         5000,
		MaxFsync:        500 * time.Millisecond,
		SlowFor:         15 * time.Second,
		MaxLoss:         0.2,
		MembershipHold:  10 * time.Second,
		PenaltyHalfLife: 30 * time.Second,
		PenaltyLimit:    0.5,
		MoveWithin:      time.Second,
		Backoff:         5 * time.Second,
		BackoffMax:      5 * time.Minute,
		ReturnAfter:     5 * time.Minute,
		QuietWindow:     10 * time.Second,
		ReturnLimit:     0.1,
		LatencyBand:     0.2,
	}
}

// Seed is the documented behaviour of the seed's agents: 15 s before a move,
// and the new leader keeps the role for 2 minutes. The prober's part of it is
// 3 failures for down and 10 answers for up at one probe a second.
func Seed() Config {
	c := Default()
	c.Settle = 15 * time.Second
	c.Hold = 2 * time.Minute
	c.SlowFor = 0 // disks play no part in it
	return c
}

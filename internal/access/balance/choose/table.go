package choose

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/health"
)

// Policy spreads connections among backends of equal preference.
type Policy string

// The policies of a frontend.
const (
	// LeastConn takes the less loaded of two chosen at random by weight. It is
	// the default: as even as looking at all, without herding onto a backend
	// that has just come back (Mitzenmacher, "The Power of Two Choices in
	// Randomized Load Balancing", 2001).
	LeastConn Policy = "leastconn"
	// RoundRobin takes turns by weight.
	RoundRobin Policy = "roundrobin"
	// Source sends a client address to the same backend while that one is
	// there (highest random weight; Thaler and Ravishankar, 1998).
	Source Policy = "source"
)

// Backend is what the choice knows of one backend.
type Backend struct {
	ID   string
	Zone string
	// Weight is its share beside others; 0 counts as 1.
	Weight int
	// Backup is used only while no backend without it is as good.
	Backup  bool
	Grade   health.Grade
	Suspect bool
	// Held gets no new connection: drained by a person.
	Held bool
	// RTT is the smoothed time of a handshake; 0 is unknown and counts as near.
	RTT time.Duration
	// ReadySince is when it became usable, on the clock of Query.Now; slow
	// start counts from there. Below 0: no slow start.
	ReadySince time.Duration
	// MaxConns is how many connections it may have; 0 is no limit.
	MaxConns int
}

// Config is what a table is built from, beside its backends.
type Config struct {
	Policy Policy
	// Zone is the own zone; "" means that zones do not count.
	Zone string
	// SlowStart is how long the weight of a returning backend takes to grow
	// from a tenth to the whole.
	SlowStart time.Duration
	// Panic says that the node doubts itself: see Lifeguard.
	Panic bool
}

// Table is an immutable view of the backends of one pool.
type Table struct {
	cfg      Config
	backends []Backend
	// tiers holds indices, best tier first; the members of a tier are equals.
	tiers []tier
	// panics are tried in this order when no tier has anybody; the members of
	// one are equals.
	panics [][]int
	// suspects says that some backend is suspect.
	suspects bool
}

type tier struct {
	grade   health.Grade
	members []int
	// turns is one cycle of the round robin, longest for uneven weights.
	turns []int
}

// New returns the table of the backends, which it keeps.
func New(cfg Config, backends []Backend) *Table {
	t := &Table{cfg: cfg, backends: backends}
	order := map[int]*tier{}
	for i, b := range backends {
		t.suspects = t.suspects || b.Suspect
		if b.Held {
			continue
		}
		r, ok := t.rank(b)
		if !ok {
			continue
		}
		if order[r] == nil {
			order[r] = &tier{grade: b.Grade}
		}
		order[r].members = append(order[r].members, i)
	}
	ranks := make([]int, 0, len(order))
	for r := range order {
		ranks = append(ranks, r)
	}
	slices.Sort(ranks)
	for _, r := range ranks {
		order[r].turns = turns(backends, order[r].members)
		t.tiers = append(t.tiers, *order[r])
	}
	t.panics = t.panicOrder()
	return t
}

// Backends are those the table was built from; not to be changed.
func (t *Table) Backends() []Backend { return t.backends }

// Usable counts the backends that are ready or alive and not held.
func (t *Table) Usable() int {
	n := 0
	for _, tier := range t.tiers {
		n += len(tier.members)
	}
	return n
}

// rank is the preference of a usable backend, lowest first.
func (t *Table) rank(b Backend) (int, bool) {
	r := 0
	switch b.Grade {
	case health.Ready:
	case health.Alive:
		r = 8
	default:
		return 0, false
	}
	if b.Suspect {
		r += 4
	}
	if b.Backup {
		r += 2
	}
	if t.cfg.Zone != "" && b.Zone != t.cfg.Zone {
		r++
	}
	return r, true
}

// panicRank orders what is left when nobody is usable: the unknown first (at
// start nothing has been checked), then what at least answers something.
var panicRank = map[health.Grade]int{
	health.Unknown: 0, health.NotReady: 1, health.ShuttingDown: 2, health.Frozen: 3, health.Refused: 4, health.Unreachable: 5,
}

// panicOrder lists everybody that is worth a try when nobody is usable. Where
// the node doubts itself its verdicts count for nothing, and the fastest comes
// first. Else a backend that gave no answer at all is left out: trying it only
// keeps the client from being refused at once.
func (t *Table) panicOrder() [][]int {
	var all []int
	for i, b := range t.backends {
		if _, usable := t.rank(b); usable || b.Held || (b.Grade == health.Unreachable && !t.cfg.Panic) {
			continue
		}
		all = append(all, i)
	}
	slices.SortStableFunc(all, t.panicCompare)
	var groups [][]int
	for _, i := range all {
		if n := len(groups); n > 0 && t.panicCompare(groups[n-1][0], i) == 0 {
			groups[n-1] = append(groups[n-1], i)
			continue
		}
		groups = append(groups, []int{i})
	}
	return groups
}

func (t *Table) panicCompare(i, j int) int {
	a, b := t.backends[i], t.backends[j]
	if !t.cfg.Panic {
		if c := cmp.Compare(panicRank[a.Grade], panicRank[b.Grade]); c != 0 {
			return c
		}
	}
	return cmp.Compare(a.RTT, b.RTT)
}

// most turns of one cycle; weights beyond it lose precision, not their order.
const mostTurns = 1000

// turns lists one cycle of a smooth weighted round robin: each backend as
// often as its weight, spread as evenly as possible.
func turns(backends []Backend, members []int) []int {
	total := 0
	for _, i := range members {
		total += weight(backends[i])
	}
	scale := 1 + (total-1)/mostTurns
	credit, left := make([]int, len(members)), 0
	share := make([]int, len(members))
	for k, i := range members {
		share[k] = max(1, weight(backends[i])/scale)
		left += share[k]
	}
	cycle := make([]int, 0, left)
	for range left {
		best := 0
		for k := range members {
			credit[k] += share[k]
			if credit[k] > credit[best] {
				best = k
			}
		}
		credit[best] -= left
		cycle = append(cycle, members[best])
	}
	return cycle
}

func weight(b Backend) int { return max(1, b.Weight) }

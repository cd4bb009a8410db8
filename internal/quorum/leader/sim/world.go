package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/leader"
)

// most is the largest number of members: seven voters and a learner.
const most = 8

const (
	never    = time.Duration(-1 << 62)
	clusterA = 0xc1
	// electionTimeout is etcd's default; followers take one to two of it.
	electionTimeout = time.Second
)

// Shape is what a world starts as.
type Shape struct {
	Names    []string // one letter each, voters first
	Zones    []string
	Learners int
	Leader   int
	Config   leader.Config
	// Rate is how many entries are committed a second.
	Rate float64
	// Lost is the share of deliveries of rows that never arrive, Late of those
	// that take up to 4 s.
	Lost, Late float64
	// NoClients closes the client ports between sites, NoMesh the agents' own.
	NoClients, NoMesh bool
	// NoMetrics keeps agents from reading how long disks take.
	NoMetrics bool
}

// World is one simulated cluster with its network, members and agents.
type World struct {
	now   time.Duration
	queue queue
	rng   *rand.Rand // nil: every delay is the middle of its range
	shape Shape
	// cfg is what agents work by; the judge works by shape.Config. They are
	// equal except where a test takes a rule away to see that it is missed.
	cfg leader.Config
	n   int

	net     network
	members [most]member
	agents  [most]agent
	log     progress
	store   leader.Penalty // the record in etcd
	rows    []row          // every row of the schedule, by index
	records []leader.Penalty
	faults  []Fault
	truth   truth

	// Trace, when set, gets one line per change.
	Trace func(at time.Duration, line string)
}

// NewWorld returns an empty world; Reset fills it. A world is reused from
// schedule to schedule to spare its memory.
func NewWorld() *World { return &World{} }

// Reset starts a new schedule: every member runs, is linked to every other and
// follows the leader of shape.
func (w *World) Reset(shape Shape, rng *rand.Rand) {
	w.now, w.shape, w.cfg, w.rng, w.n = 0, shape, shape.Config, rng, len(shape.Names)
	w.queue.reset()
	w.rows, w.records, w.faults = w.rows[:0], w.records[:0], w.faults[:0]
	w.store, w.net, w.log = leader.Penalty{}, network{}, progress{}
	w.truth.reset()
	for i := range w.n {
		w.members[i] = member{
			up: true, voter: i < w.n-shape.Learners, lead: int8(shape.Leader), term: 2, synced: true, serving: true, stallAt: never, curedAt: never,
		}
		w.agents[i].reset(w, i)
	}
	w.members[shape.Leader].leading = true
	w.refresh()
	for i := range w.n {
		w.bootAgent(i)
	}
}

// Now is the time since the schedule began.
func (w *World) Now() time.Duration { return w.now }

// Run lets d pass.
func (w *World) Run(d time.Duration) {
	end := w.now + d
	for len(w.queue.heap) > 0 && w.queue.heap[0].at <= end {
		e := w.queue.pop()
		w.now = e.at
		w.handle(e)
	}
	w.now = end
}

func (w *World) handle(e event) {
	i := int(e.a)
	switch e.kind {
	case evFault:
		w.apply(w.faults[e.x])
	case evElection, evStepDown, evJoin, evCatchUp, evTransfer, evThaw:
		w.handleRaft(e, i)
	default:
		w.handleAgent(e, i)
	}
}

// after schedules an event d from now.
func (w *World) after(d time.Duration, e event) {
	e.at = w.now + d
	w.queue.push(e)
}

// between draws a delay; without a random source it is the middle.
func (w *World) between(low, high time.Duration) time.Duration {
	if w.rng == nil {
		return (low + high) / 2
	}
	return low + time.Duration(w.rng.Int64N(int64(high-low)+1))
}

// chance is true with probability p, and never without a random source.
func (w *World) chance(p float64) bool {
	return p > 0 && w.rng != nil && w.rng.Float64() < p
}

func (w *World) trace(format string, args ...any) {
	if w.Trace != nil {
		w.Trace(w.now, fmt.Sprintf(format, args...))
	}
}

func (w *World) name(i int) string { return w.shape.Names[i] }

// id is the etcd id of member i: a, b, c … in hexadecimal for the first six.
func id(i int) leader.MemberID { return leader.MemberID(0xa + i) }

// index is the inverse of id, -1 for no member.
func index(m leader.MemberID) int {
	if m == 0 {
		return -1
	}
	return int(m) - 0xa
}

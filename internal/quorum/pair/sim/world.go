package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/wal"
)

const cluster = wal.ID(0xc1)

var names = [2]string{"a", "b"}

// Shape is what a world starts as.
type Shape struct {
	// Begin is how: as a pair at work, as a new one, or with a single member.
	Begin Begin
	// Latency is the shortest way of a message between the sites, Fast the
	// longest to the arbiter, Sync that of the disks, Transfer that of a snapshot.
	Latency, Fast, Sync, Transfer time.Duration
	// Boot is the longest that etcd takes to come up.
	Boot time.Duration
	// Torn is the share of edits of which only half comes to the disk.
	Torn float64
	// Slow is the share of an agent's looks that take up to a second.
	Slow float64
	// Writes is the mean time between two of clients'.
	Writes time.Duration

	Prefer     string
	ServeStale bool
}

// Begin is how a world starts.
type Begin uint8

const (
	AtWork Begin = iota
	New
	Single
)

// site is a place with a disk, an agent and a member.
type site struct {
	dir   *dir
	aside []*dir
	seen  arbiter.Record // kept by the agents of this site
	dark  bool           // without power
	full  bool           // without space
	lost  bool           // its disk was replaced, and nothing is on it yet
	blind string
	// fuse is how many steps an agent takes before it dies; 0: it does not.
	fuse    int
	fuseAll bool
	arbiter way
}

// World is two sites, the links between them and an arbiter.
type World struct {
	events  int // of this schedule
	now     time.Duration
	queue   queue
	rng     *rand.Rand // nil: every delay is the middle of its range
	shape   Shape
	sites   [2]site
	members [2]member
	agents  [2]agent
	open    [2][2]bool // links from, to

	arbiter  way
	object   []byte
	record   arbiter.Record // what object says
	past     arbiter.Record // what it said before
	newest   arbiter.Record // what it said when a backup was restored; generation 0: none was
	writes   int
	calls    []call
	messages []message
	arena    []entry
	idSite   []int8
	uids     uint32
	faults   []Fault
	over     int // faults before this one are over
	running  *task
	judge    judge
	bent     rules

	// Trace, when set, gets one line per change.
	Trace func(at time.Duration, line string)
}

// rules are bent to see that the judge notices.
type rules struct {
	shape func(*Shape)
	// decide changes what an agent does.
	decide func(a *agent, v *pair.View, p *pair.Plan)
	// noBarrier: paired is written without a write. plainBarrier: with one that
	// nobody asks whom it went to.
	noBarrier, plainBarrier bool
	// newest: a change is of the record last read, not of the one decided on.
	newest bool
	// truncate: an edit keeps only what is known to be committed.
	truncate bool
	// liar: the arbiter takes every change.
	liar bool
}

// NewWorld returns an empty world; Reset fills it.
func NewWorld() *World {
	w := &World{}
	for i := range w.agents {
		w.agents[i].w, w.agents[i].site, w.members[i].site = w, i, i
	}
	return w
}

// mostEvents are more than any schedule takes: what goes round in a circle has to
// end with its seed told, and not with the machine's memory.
const mostEvents = 1_000_000

// Reset starts a new schedule.
func (w *World) Reset(shape Shape, rng *rand.Rand) {
	w.Close()
	w.now, w.shape, w.rng = 0, shape, rng
	w.queue.reset()
	w.calls, w.messages, w.arena, w.faults = w.calls[:0], w.messages[:0], w.arena[:0], w.faults[:0]
	w.idSite = append(w.idSite[:0], 0, 0, 1) // 1 is of a, 2 of b
	w.over, w.events = 0, 0
	w.uids, w.writes, w.object, w.record, w.arbiter, w.bent = 0, 0, nil, arbiter.Record{}, open, rules{}
	w.past, w.newest = arbiter.Record{}, arbiter.Record{}
	w.open = [2][2]bool{{true, true}, {true, true}}
	w.judge = judge{forced: -1, truth: w.judge.truth[:0], conf: conf{voters: [2]id{1, 2}}}
	for i := range w.sites {
		w.sites[i] = site{}
		w.members[i] = member{site: i, life: w.members[i].life + 1}
		w.after(w.between(0, time.Second), event{what: evAgent, a: int8(i)})
	}
	switch shape.Begin {
	case AtWork:
		w.sites[0].dir = &dir{id: 1, term: 1, base: w.judge.conf}
		w.sites[1].dir = &dir{id: 2, term: 1, base: w.judge.conf}
		w.record = firstRecord()
		w.object, _ = w.record.Encode() // it is valid
	case Single:
		w.judge.conf = conf{voters: [2]id{1, 0}}
		w.sites[0].dir = &dir{id: 1, term: 1, base: w.judge.conf}
	}
	w.after(w.between(0, time.Second), event{what: evWrite})
}

func firstRecord() arbiter.Record {
	return arbiter.Record{
		Version: arbiter.RecordVersion, Cluster: cluster, Generation: 1, State: arbiter.Paired,
		Members: [2]arbiter.Member{{Name: "a", ID: 1}, {Name: "b", ID: 2}}, Nonce: arbiter.NewNonce(), By: "person",
	}
}

// Close ends what still runs.
func (w *World) Close() {
	for i := range w.agents {
		w.agents[i].kill()
	}
}

func (w *World) config(site int) pair.Config {
	return pair.Config{
		Self: names[site], Peer: names[1-site], LostAfter: 3 * time.Second, HeadStart: 1500 * time.Millisecond,
		BootGrace: 10 * time.Second, StuckAfter: 30 * time.Second, Patience: 5 * time.Second,
		Prefer: w.shape.Prefer, ServeStale: w.shape.ServeStale,
	}
}

// Run lets d pass.
func (w *World) Run(d time.Duration) {
	end := w.now + d
	for len(w.queue.heap) > 0 && w.queue.heap[0].at <= end && w.judge.broken == "" {
		e := w.queue.pop()
		w.now = e.at
		if w.events++; w.events > mostEvents {
			w.breach("more than %d events: something goes round without time passing", mostEvents)
			return
		}
		w.handle(e)
	}
	w.now = end
}

func (w *World) handle(e event) {
	switch e.what {
	case evFault:
		if int(e.x) >= w.over {
			w.apply(w.faults[e.x])
		}
	case evWrite, evBurst:
		w.write(e)
	case evAgent:
		w.agents[e.a].boot()
	case evDie:
		if w.agents[e.a].kill(); e.x == 1 {
			w.exit(&w.members[e.a], 0)
		}
		w.after(w.between(100*time.Millisecond, 5*time.Second), event{what: evAgent, a: e.a})
	case evLand:
		w.land(e)
	case evResume, evAnswer:
		w.toAgent(&w.agents[e.a], e)
	case evMessage:
		if m := &w.members[e.a]; m.up && m.frozen > w.now {
			w.again(m.frozen, e) // it waits in a buffer
		} else {
			w.deliver(m, &w.messages[e.x])
		}
	default:
		w.toMember(&w.members[e.a], e)
	}
}

func (w *World) toAgent(a *agent, e event) {
	switch {
	case !a.up || a.life != e.life:
	case a.frozen > w.now:
		w.again(a.frozen, e)
	case e.what == evAnswer:
		w.answer(a, e.x)
	case a.tasks[e.x].serial == e.y:
		w.resume(a, &a.tasks[e.x])
	}
}

func (w *World) toMember(m *member, e event) {
	switch {
	case !m.up || m.life != e.life:
		return
	case m.frozen > w.now:
		w.again(m.frozen, e)
		return
	}
	switch e.what {
	case evBoot:
		w.boot(m)
	case evExit:
		w.gone(m)
	case evElect:
		w.elect(m)
	case evBeat:
		w.beat(m, e.y)
	case evSync:
		w.synced(m, int(e.x), e.y)
	}
}

// write has a client write somewhere.
func (w *World) write(e event) {
	m := &w.members[w.intn(2)]
	w.request(m, entry{kind: write})
	switch {
	case e.what == evWrite:
		w.after(w.between(0, 2*w.shape.Writes), e)
	case e.x > 0:
		e.x--
		w.after(w.between(0, 6*time.Millisecond), e)
	}
}

// after schedules an event d from now.
func (w *World) after(d time.Duration, e event) { w.again(w.now+d, e) }

func (w *World) again(at time.Duration, e event) {
	e.at = at
	w.queue.push(e)
}

func (w *World) between(low, high time.Duration) time.Duration {
	switch {
	case high <= low:
		return low
	case w.rng == nil:
		return (low + high) / 2
	}
	return low + time.Duration(w.rng.Int64N(int64(high-low)))
}

func (w *World) chance(p float64) bool { return p > 0 && w.rng != nil && w.rng.Float64() < p }

// intn draws from 0 to n-1; without a random source it is 0.
func (w *World) intn(n int) int {
	if w.rng == nil || n <= 1 {
		return 0
	}
	return w.rng.IntN(n)
}

func (w *World) trace(format string, args ...any) {
	if w.Trace != nil {
		w.Trace(w.now, fmt.Sprintf(format, args...))
	}
}

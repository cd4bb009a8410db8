package bgp

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// schedules is how many random worlds are run: more where somebody has the
// time, HOLDFAST_SCHEDULES.
func schedules(t *testing.T) int {
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_SCHEDULES")); err == nil {
		return n
	}
	if testing.Short() {
		return 100
	}
	return 1000
}

// world is two sessions, one the peer of the other, with the network between
// them, in simulated time.
type world struct {
	random *rand.Rand
	now    time.Duration
	ends   [2]*simulated
	pipes  []*pipe
	events []event
	cut    bool
	held   []func() // what TCP sends again when the cut is over
	log    []string
}

type simulated struct {
	*session
	lines map[Line]*pipe
	dials int
	ups   int
}

// pipe is one connection; its ends have a line each.
type pipe struct {
	line   [2]Line
	closed [2]bool
}

type event struct {
	at time.Duration
	do func()
}

func (w *world) after(d time.Duration, f func()) {
	w.events = append(w.events, event{w.now + d, f})
}

// delay is the way of a packet. Order is kept by the ends of a pipe being told
// in the order of sending, which equal delays give.
const delay = 5 * time.Millisecond

func newWorld(seed uint64) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 7))}
	for i := range w.ends {
		p := testConfig()
		p.ours, p.as = 65001+uint32(i), 65002-uint32(i)
		p.hold = []time.Duration{9 * time.Second, 30 * time.Second}[w.random.IntN(2)]
		id := netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + i)})
		w.ends[i] = &simulated{session: newSession(p, id, w.random), lines: map[Line]*pipe{}}
	}
	// Perhaps one of them only waits.
	if i := w.random.IntN(3); i < 2 {
		w.ends[i].config.passive = true
	}
	return w
}

func (w *world) perform(i int, actions []Action) {
	e := w.ends[i]
	for _, a := range actions {
		switch a := a.(type) {
		case Dial:
			e.dials++
			w.dial(i, e.dials)
		case Send:
			if p := e.lines[a.Line]; p != nil {
				w.send(i, p, a.Message)
			}
		case Hangup:
			if p := e.lines[a.Line]; p != nil {
				delete(e.lines, a.Line)
				p.closed[i] = true
				w.tellEnd(1-i, p)
			}
		case Change:
			if a.To == Established {
				e.ups++
			}
			w.log = append(w.log, fmt.Sprintf("%v end %d: %v to %v %s", w.now, i, a.From, a.To, a.Cause.Kind))
		}
	}
}

func (w *world) dial(i, number int) {
	w.after(delay, func() {
		switch {
		case w.ends[i].dials != number:
		case w.cut:
			w.after(dialTimeout, func() {
				if w.ends[i].dials == number {
					w.perform(i, w.ends[i].unreachable(w.now, Cause{Kind: NoAnswer}))
				}
			})
		default:
			p := &pipe{}
			w.pipes = append(w.pipes, p)
			w.open(i, p, false)
			w.open(1-i, p, true)
		}
	})
}

func (w *world) open(i int, p *pipe, inbound bool) {
	id, actions := w.ends[i].opened(w.now, inbound, Local{Four: netip.MustParseAddr("192.0.2.9"), Six: netip.MustParseAddr("2001:db8::9")})
	p.line[i] = id
	w.ends[i].lines[id] = p
	w.perform(i, actions)
}

func (w *world) send(i int, p *pipe, m *packet.BGPMessage) {
	data, err := m.Serialize()
	if err != nil {
		panic(err)
	}
	w.carry(func() {
		back, err := packet.ParseBGPMessage(data)
		if err != nil {
			panic(err)
		}
		if !p.closed[1-i] {
			w.perform(1-i, w.ends[1-i].received(w.now, p.line[1-i], back, nil))
		}
	})
}

// carry brings something to the other end, in order.
func (w *world) carry(f func()) {
	if w.cut {
		w.held = append(w.held, f)
		return
	}
	w.after(delay, f)
}

func (w *world) setCut(cut bool) {
	w.cut = cut
	if !cut {
		for _, f := range w.held {
			w.after(delay, f)
		}
		w.held = nil
	}
}

// tellEnd has one end learn that the other has closed.
func (w *world) tellEnd(i int, p *pipe) {
	w.carry(func() {
		if !p.closed[i] {
			p.closed[i] = true
			delete(w.ends[i].lines, p.line[i])
			w.perform(i, w.ends[i].closed(w.now, p.line[i], Cause{Kind: Closed}))
		}
	})
}

// run lets time pass until an end.
func (w *world) run(until time.Duration) {
	for {
		next, which := until, -1
		for k, e := range w.events {
			if e.at < next || e.at == next && which < 0 {
				next, which = e.at, k
			}
		}
		due := -1
		for i, e := range w.ends {
			if at := e.due(); at < next {
				next, due = max(at, w.now), i
			}
		}
		w.now = next
		switch {
		case due >= 0:
			w.perform(due, w.ends[due].tick(w.now))
		case which >= 0:
			e := w.events[which]
			w.events = append(w.events[:which], w.events[which+1:]...)
			e.do()
		default:
			return
		}
		w.check()
	}
}

func (w *world) check() {
	for i, e := range w.ends {
		up := 0
		for _, l := range e.session.lines {
			if l.state == Established {
				up++
			}
		}
		if up > 1 || len(e.session.lines) > 2 {
			panic(fmt.Sprintf("end %d has %d lines, %d established", i, len(e.session.lines), up))
		}
	}
}

// disturb does one of the things that happen.
func (w *world) disturb() {
	i := w.random.IntN(2)
	switch w.random.IntN(6) {
	case 0:
		w.setCut(!w.cut)
	case 1:
		w.perform(i, w.ends[i].pathDown(w.now))
	case 2:
		w.perform(i, w.ends[i].pathUp(w.now))
	case 3: // a reset from somewhere
		for id, p := range w.ends[i].lines {
			delete(w.ends[i].lines, id)
			p.closed[i] = true
			w.perform(i, w.ends[i].closed(w.now, id, Cause{Kind: Closed}))
			w.tellEnd(1-i, p)
			break
		}
	case 4:
		w.perform(i, w.ends[i].stop(w.now, ""))
		w.after(time.Duration(w.random.IntN(3000))*time.Millisecond, func() { w.perform(i, w.ends[i].start(w.now)) })
	case 5:
		want := map[netip.Prefix]bool{}
		for range w.random.IntN(4) {
			a := netip.AddrFrom4([4]byte{203, 0, 113, byte(w.random.IntN(8))})
			want[netip.PrefixFrom(a, 32)] = w.random.IntN(3) == 0
		}
		w.perform(i, w.ends[i].set(want))
	}
}

// TestTheyComeUp: whatever happens, once it is calm both ends agree on one
// connection, and each knows what the other announces.
func TestTheyComeUp(t *testing.T) {
	var worst time.Duration
	for seed := range schedules(t) {
		w := newWorld(uint64(seed))
		for i := range w.ends {
			w.perform(i, w.ends[i].start(0))
		}
		for range 5 + w.random.IntN(30) {
			w.run(w.now + time.Duration(w.random.IntN(4000))*time.Millisecond)
			w.disturb()
		}
		w.setCut(false)
		calm := w.now
		// Longest: a refusal's pause, and the hold time of an end that was cut off.
		var settled time.Duration
		for settled == 0 && w.now < calm+refusedMost+45*time.Second {
			w.run(w.now + 100*time.Millisecond)
			if w.ends[0].state == Established && w.ends[1].state == Established && same(w) {
				settled = w.now - calm
			}
		}
		if settled == 0 {
			t.Fatalf("seed %d: after %v: %v and %v\n%v", seed, w.now-calm, w.ends[0].state, w.ends[1].state, w.log)
		}
		worst = max(worst, settled)
		ups := w.ends[0].ups
		w.run(w.now + 5*time.Minute)
		if !same(w) || w.ends[0].ups != ups {
			t.Fatalf("seed %d: it does not stay up\n%v", seed, w.log)
		}
		for i, e := range w.ends {
			if len(e.routes.sent) != len(e.routes.want) {
				t.Fatalf("seed %d: end %d told of %v, not %v", seed, i, e.routes.sent, e.routes.want)
			}
		}
	}
	t.Logf("longest until both were up: %v", worst)
}

// same says whether both ends speak over one pipe.
func same(w *world) bool {
	a, b := w.ends[0].established(), w.ends[1].established()
	return a != nil && b != nil && w.ends[0].lines[a.id] == w.ends[1].lines[b.id]
}

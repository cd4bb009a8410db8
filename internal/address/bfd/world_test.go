package bfd

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

// frame is a packet under way in a world.
type frame struct {
	to     *end
	at     time.Duration
	packet Packet
	pace   time.Duration // the interval that was agreed when it left
}

// end is one session of a world with what it has done.
type end struct {
	name    string
	session *Session
	other   *end
	changes []Change
	sent    []frame
	// frozen keeps the end from running; what arrives waits in its socket.
	frozen bool
	socket []frame
	// rate is how fast its clock runs; 1 is true time.
	rate float64
}

func (e *end) local(now time.Duration) time.Duration { return time.Duration(float64(now) * e.rate) }

// world is two sessions, a link and a clock. Time passes only in run.
type world struct {
	now    time.Duration
	random *rand.Rand
	a, b   *end
	flying []frame
	// delay and lose are asked for every packet.
	delay func(to *end) time.Duration
	lose  func(to *end) bool
}

func hundred() Timers {
	return Timers{DesiredMinTx: 100 * ms, RequiredMinRx: 100 * ms, DetectMult: 3}
}

func newWorld(seed uint64, a, b Timers) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 5880))}
	w.delay = func(*end) time.Duration { return ms }
	w.lose = func(*end) bool { return false }
	w.a = &end{name: "a", rate: 1, session: NewSession(1, a, w.random)}
	w.b = &end{name: "b", rate: 1, session: NewSession(2, b, w.random)}
	w.a.other, w.b.other = w.b, w.a
	return w
}

// do performs actions of e.
func (w *world) do(e *end, actions []Action) {
	for _, action := range actions {
		switch action := action.(type) {
		case Change:
			e.changes = append(e.changes, action)
		case Send:
			f := frame{to: e.other, at: w.now, packet: action.Packet, pace: e.session.agreed()}
			e.sent = append(e.sent, f)
			if !w.lose(e.other) {
				f.at += w.delay(e.other)
				w.flying = append(w.flying, f)
			}
		}
	}
}

func (w *world) start() {
	w.do(w.a, w.a.session.Start(w.a.local(w.now)))
	w.do(w.b, w.b.session.Start(w.b.local(w.now)))
}

// restart gives e a new session, as after a crash.
func (w *world) restart(e *end, discr uint32, t Timers) {
	e.session, e.socket = NewSession(discr, t, w.random), nil
	w.do(e, e.session.Start(e.local(w.now)))
}

// next is the time of the next event, and until at the latest.
func (w *world) next(until time.Duration) time.Duration {
	for _, e := range []*end{w.a, w.b} {
		if len(e.socket) > 0 && !e.frozen {
			return w.now
		}
		if at, ok := e.session.Next(); ok && !e.frozen {
			until = min(until, max(w.now, time.Duration(float64(at)/e.rate)+1))
		}
	}
	for _, f := range w.flying {
		until = min(until, f.at)
	}
	return until
}

// run lets time pass until the given time.
func (w *world) run(until time.Duration) {
	for w.now < until {
		w.now = w.next(until)
		w.arrive()
		for _, e := range []*end{w.a, w.b} {
			w.wake(e)
		}
	}
}

func (w *world) arrive() {
	slices.SortStableFunc(w.flying, func(x, y frame) int { return int(x.at - y.at) })
	for len(w.flying) > 0 && w.flying[0].at <= w.now {
		f := w.flying[0]
		w.flying = w.flying[1:]
		f.to.socket = append(f.to.socket, f)
	}
}

// wake does what the shell does: everything that has arrived, then Tick.
func (w *world) wake(e *end) {
	if e.frozen {
		return
	}
	now := e.local(w.now)
	for _, f := range e.socket {
		if f.packet.YourDiscr == 0 || f.packet.YourDiscr == e.session.discr {
			w.do(e, e.session.Receive(now, e.local(f.at), f.packet))
		}
	}
	e.socket = nil
	w.do(e, e.session.Tick(now))
}

func (w *world) cut()  { w.lose = func(*end) bool { return true } }
func (w *world) heal() { w.lose = func(*end) bool { return false } }

// states is a transcript such as "Down>Init Init>Up".
func (e *end) states() string {
	text := ""
	for _, c := range e.changes {
		text += fmt.Sprintf(" %v>%v", c.From, c.To)
	}
	return text
}

func (w *world) bothUp(t *testing.T) {
	t.Helper()
	if w.a.session.State() != Up || w.b.session.State() != Up {
		t.Fatalf("at %v: a is %v (%s), b is %v (%s)", w.now, w.a.session.State(), w.a.states(), w.b.session.State(), w.b.states())
	}
}

// established is a world whose sessions are up and have agreed on their timers.
func established(t *testing.T, a, b Timers) *world {
	t.Helper()
	w := newWorld(1, a, b)
	w.start()
	w.run(5 * time.Second)
	w.bothUp(t)
	w.a.changes, w.b.changes, w.a.sent, w.b.sent = nil, nil, nil, nil
	return w
}

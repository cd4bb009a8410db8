package health

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// ms is the unit of these tests.
const ms = time.Millisecond

// mode is how a server and the way to it behave.
type mode int

const (
	well       mode = iota
	failing         // answers 500
	parting         // answers 500, only shutdown failing
	frozen          // its kernel accepts, its process stands still
	blackholed      // no packet passes
	refusing        // reset and refused
	cutNew          // no packet of new connections passes
	cutKept         // no packet of standing connections passes
	untrusted       // its certificate does not verify on new connections
)

var modeNames = []string{"well", "failing", "parting", "frozen", "blackholed", "refusing", "cut-new", "cut-kept", "untrusted"}

// segment is a time in which a server has one mode; the next one ends it.
type segment struct {
	from time.Duration
	mode mode
}

// server is a model: what will come of a probe begun at a time.
type server struct {
	rtt      time.Duration
	answer   func() time.Duration // drawn for each request
	secure   func() time.Duration // and for each TLS handshake
	segments []segment
}

func steady(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

func (s *server) at(t time.Duration) (m mode, end time.Duration) {
	end = Never
	for _, seg := range s.segments {
		if seg.from > t {
			return m, seg.from
		}
		m = seg.mode
	}
	return m, end
}

// work returns when d of work begun at t is done, or when the server breaks
// the connection. The process must run and packets must pass.
func (s *server) work(t, d time.Duration, kept bool) (done time.Duration, broken bool) {
	for {
		m, end := s.at(t)
		switch {
		case m == refusing:
			return t, true
		case m == frozen, m == blackholed, m == cutNew && !kept, m == cutKept && kept:
			if end == Never {
				return Never, false
			}
			t = end
		case t+d <= end:
			return t + d, false
		default:
			d -= end - t
			t = end
		}
	}
}

// connect returns when a TCP handshake begun at t is done or refused.
func (s *server) connect(t time.Duration) (done time.Duration, refused bool) {
	for {
		switch m, end := s.at(t); {
		case m == refusing:
			return t + s.rtt, true
		case m != blackholed && m != cutNew:
			return t + s.rtt, false
		case end == Never:
			return Never, false
		default:
			t = end // as if a SYN came just then
		}
	}
}

// world runs a Judge against a server in virtual time.
type world struct {
	t     *testing.T
	judge *Judge
	server
	now     time.Duration
	queue   []happening
	kept    bool // a connection stands
	lines   []entry
	flying  map[uint64]bool
	begun   int
	changes []Verdict // after each change of grade or suspicion
	seen    Verdict
	storm   func(now time.Duration) (Event, time.Duration) // outside events and when the next comes
	stormAt time.Duration
}

type happening struct {
	at    time.Duration
	event Event
	then  func()
}

func newWorld(t *testing.T, timers Timers, phase float64, s server) *world {
	if s.secure == nil {
		s.secure = steady(ms)
	}
	w := &world{t: t, judge: NewJudge(timers, phase), server: s, flying: map[uint64]bool{}, stormAt: Never}
	w.seen = w.judge.Verdict()
	for i, seg := range s.segments {
		if seg.mode == refusing && (i == 0 || s.segments[i-1].mode != refusing) {
			w.queue = append(w.queue, happening{at: seg.from, then: w.breakKept})
		}
	}
	return w
}

func (w *world) breakKept() {
	if w.kept {
		w.kept = false
		w.logf("kept connection lost")
		w.judge.Step(w.now, Lost{})
	}
}

// entry is a line of the transcript, put into words only when somebody reads it.
type entry struct {
	at     time.Duration
	format string
	args   []any
}

func (w *world) logf(format string, args ...any) {
	w.lines = append(w.lines, entry{w.now, format, args})
}

// transcript returns what happened, a line each.
func (w *world) transcript() string {
	var b strings.Builder
	for _, e := range w.lines {
		fmt.Fprintf(&b, "%7.3f  %s\n", e.at.Seconds(), fmt.Sprintf(e.format, e.args...))
	}
	return b.String()
}

// run goes on until end.
func (w *world) run(end time.Duration) {
	for {
		actions, wake := w.judge.Next(w.now)
		if wake < w.now {
			w.t.Fatalf("wake at %s, before now %s", wake, w.now)
		}
		for _, a := range actions {
			w.perform(a)
		}
		w.note()
		next, i := min(wake, w.stormAt), -1
		for k, h := range w.queue {
			if h.at <= next && (i < 0 || h.at < w.queue[i].at) {
				next, i = h.at, k
			}
		}
		if next > end {
			w.now = end
			return
		}
		w.now = next
		switch {
		case i >= 0:
			h := w.queue[i]
			w.queue = append(w.queue[:i], w.queue[i+1:]...)
			w.happen(h)
		case next == w.stormAt:
			var ev Event
			ev, w.stormAt = w.storm(w.now)
			w.judge.Step(w.now, ev)
		}
		w.note()
	}
}

func (w *world) happen(h happening) {
	if h.then != nil {
		h.then()
		return
	}
	if a, ok := h.event.(Answered); ok {
		if !w.flying[a.Probe] {
			return
		}
		delete(w.flying, a.Probe)
		if a.Result.Grade >= NotReady && !a.Result.NewOnly {
			w.kept = true
		}
		w.logf("probe %d: %s", a.Probe, a.Result.Grade)
	}
	w.judge.Step(w.now, h.event)
}

func (w *world) perform(a Action) {
	switch a.Kind {
	case Cancel:
		delete(w.flying, a.Probe)
		w.logf("cancel %d", a.Probe)
	case Start:
		w.begun++
		w.flying[a.Probe] = true
		kept := w.kept && !a.Fresh
		w.logf("start %d %s", a.Probe, map[bool]string{true: "kept", false: "fresh"}[kept])
		if len(w.flying) > maxInFlight {
			w.t.Fatalf("%s: %d probes in flight", w.now, len(w.flying))
		}
		w.begin(a.Probe, kept)
	}
}

// begin queues what will come of a probe.
func (w *world) begin(id uint64, kept bool) {
	at, broken := w.now, false
	later := func(ev Event) { w.queue = append(w.queue, happening{at: at, event: ev}) }
	fail := func() { later(Answered{id, Result{Grade: Refused, Reason: "refused", Fresh: !kept}}) }
	if !kept {
		later(Progress{id, Dialling})
		if at, broken = w.connect(at); at == Never {
			return
		} else if broken {
			fail()
			return
		}
		later(Progress{id, Connected})
		if at, broken = w.work(at, w.rtt+w.secure(), false); at == Never {
			return
		} else if broken {
			fail()
			return
		}
		if m, _ := w.at(at); m == untrusted {
			later(Answered{id, Result{Grade: NotReady, Reason: "TLS handshake: unknown authority", RTT: w.rtt, Fresh: true, NewOnly: true}})
			return
		}
		later(Progress{id, Spoke})
	}
	if at, broken = w.work(at, w.rtt+w.server.answer(), kept); at == Never {
		return
	} else if broken {
		fail()
		return
	}
	r := Result{Grade: Ready, Fresh: !kept, RTT: w.rtt}
	switch m, _ := w.at(at); m {
	case failing:
		r.Grade, r.Reason = NotReady, "answers 500, failing: etcd"
	case parting:
		r.Grade, r.Reason = ShuttingDown, "says that it shuts down"
	}
	later(Answered{id, r})
}

// note records and checks the verdict.
func (w *world) note() {
	v := w.judge.Verdict()
	if v.Suspect && !v.Grade.Usable() {
		w.t.Fatalf("%s: %s and suspect", w.now, v.Grade)
	}
	if v.Grade == w.seen.Grade && v.Suspect == w.seen.Suspect {
		return
	}
	if v.Grade != w.seen.Grade && v.Since != w.now {
		w.t.Fatalf("%s: a change that says it was at %s", w.now, v.Since)
	}
	w.seen = v
	w.changes = append(w.changes, v)
	what := v.Grade.String()
	if v.Suspect {
		what += ", suspect"
	}
	if v.Reason != "" {
		what += ": " + v.Reason
	}
	w.logf("= %s", what)
	v.Since = w.now
	w.changes[len(w.changes)-1] = v
}

// grades returns the grades in their order, without suspicions.
func (w *world) grades() []Verdict {
	var all []Verdict
	last := Unknown
	for _, v := range w.changes {
		if v.Grade != last {
			all = append(all, v)
			last = v.Grade
		}
	}
	return all
}

package lease

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/ask"
)

// These are the hazards that need several accidents at once, so that a schedule
// of the simulation meets them rarely. The lease is 2.5 s, and its term 2.25 s.

const ms = time.Millisecond

// rig is peer a, driven by hand.
type rig struct {
	t    *testing.T
	m    *Machine
	last map[Do]Action // the last action of each kind
	all  []Action      // of the last call
}

func newRig(t *testing.T, peers ...string) *rig {
	t.Helper()
	c := Config{Self: "a", Peers: peersOf(peers...), Incarnation: 1}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, m: New(c), last: map[Do]Action{}}
}

func (r *rig) did(actions []Action) *rig {
	r.all = slices.Clone(actions)
	for _, a := range actions {
		r.last[a.Do] = a
	}
	return r
}

func (r *rig) has(do Do) bool {
	return slices.ContainsFunc(r.all, func(a Action) bool { return a.Do == do })
}

// wrote is what the store has after the last write.
func (r *rig) wrote() Seen {
	w := r.last[Write]
	return Seen{Record: w.Record, Version: w.Version + 1}
}

// holding takes a free record at second 0, and holds until 2.25 s.
func (r *rig) holding() *rig {
	r.t.Helper()
	r.did(r.m.Tick(0))
	free := Seen{Version: 10, Record: Record{Turn: 4, Duration: DefaultDuration, Peers: r.m.cfg.Peers}}
	r.did(r.m.Called(0, r.last[Read].ID, Done, free))
	r.did(r.m.Called(10*ms, r.last[Write].ID, Done, r.wrote()))
	if until := r.last[Hold].Until; until != 2250*ms {
		r.t.Fatalf("holds until %v", until)
	}
	return r
}

// lose lets time pass in which the API does not answer.
func (r *rig) lose(to time.Duration) {
	for at := max(r.m.Next(), 0); at <= to; at = r.m.Next() {
		r.did(r.m.Tick(at))
		if r.m.writing.busy {
			r.did(r.m.Called(at, r.m.writing.id, Failed, Seen{}))
		}
		if r.m.reading.busy {
			r.did(r.m.Called(at, r.m.reading.id, Failed, Seen{}))
		}
	}
}

// question is the one that was sent to a peer last.
func (r *rig) question(to string) ask.Message {
	r.t.Helper()
	p := r.m.peer(to)
	if p == nil {
		r.t.Fatalf("%s is not asked", to)
	}
	q := p.open[(p.at+len(p.open)-1)%len(p.open)]
	return ask.Message{Kind: ask.Question, From: "a", To: to, Nonce: ask.Nonce{Incarnation: 1, Serial: q.serial}, Duration: DefaultDuration}
}

func (r *rig) unreached(at time.Duration, by string, q ask.Message) {
	r.did(r.m.Heard(at, q.Reply(ask.Ready, 5)))
}

func (r *rig) until() time.Duration {
	until, _ := r.m.Until(0)
	return until
}

func TestAHolderCountsFromItsQuestion(t *testing.T) {
	r := newRig(t, "a", "b").holding()
	r.lose(1300 * ms)
	q, asked := r.question("b"), r.m.peer("b").asked
	r.unreached(2200*ms, "b", q)
	if want := asked + 2250*ms; r.until() != want {
		t.Errorf("asked at %v: holds until %v, not %v", asked, r.until(), want)
	}
	r.unreached(2210*ms, "b", q)
	if want := asked + 2250*ms; r.until() != want {
		t.Errorf("one answer counts twice: until %v", r.until())
	}
}

func TestNothingExtendsWhatIsOver(t *testing.T) {
	r := newRig(t, "a", "b").holding()
	r.lose(2200 * ms)
	r.unreached(2250*ms, "b", r.question("b"))
	if !r.has(Release) || r.has(Hold) || r.last[Release].Cause != CauseReached && r.last[Release].Cause != CauseUnheard {
		t.Errorf("%+v", r.all)
	}
	r.unreached(2260*ms, "b", r.question("b"))
	if r.has(Hold) {
		t.Error("holds again by a word")
	}
}

func TestARenewalFromBeforeTheHandOverDoesNotCount(t *testing.T) {
	r := newRig(t, "a", "b").holding()
	r.did(r.m.Tick(1000 * ms))
	renewal, record := r.last[Write].ID, r.wrote()
	r.did(r.m.Release(1010*ms, ""))
	q := r.question("b")
	r.did(r.m.Heard(1020*ms, q.Reply(ask.Reached|ask.Ready, 5)))
	if !r.last[Hold].Lingering {
		t.Fatalf("%+v", r.all)
	}
	// The successor took it by a word, and was heard, while the watch lags.
	r.did(r.m.Heard(1100*ms, ask.Message{Kind: ask.Claim, From: "b", To: "a", Turn: 6}))
	if r.last[Release].Cause != CauseHandedOver {
		t.Fatalf("%+v", r.all)
	}
	for _, learn := range []func() []Action{
		func() []Action { return r.m.Called(1110*ms, renewal, Done, record) },
		func() []Action { return r.m.News(1120*ms, record) },
	} {
		if r.did(learn()); r.has(Hold) {
			t.Error("holds again what it gave away")
		}
	}
}

func TestWhoeverMayBeNamedIsAsked(t *testing.T) {
	r := newRig(t, "a", "b").holding()
	r.did(r.m.SetPeers(500*ms, peersOf("a", "b", "c")))
	r.lose(1300 * ms) // with the write that names c, which may have been done
	r.unreached(1310*ms, "b", r.question("b"))
	if r.until() != 2250*ms {
		t.Errorf("b's word alone keeps it until %v", r.until())
	}
	r.unreached(1310*ms, "c", r.question("c"))
	if r.until() <= 2250*ms {
		t.Error("b's word and c's do not keep it")
	}
}

func TestADeletedRecordFreesNobodyFromAsking(t *testing.T) {
	r := newRig(t, "a", "b").holding()
	r.did(r.m.News(500*ms, Seen{}))
	r.did(r.m.Called(510*ms, r.last[Read].ID, Done, Seen{}))
	r.lose(2000 * ms)
	if r.until() != 2250*ms {
		t.Errorf("holds until %v with nobody asked", r.until())
	}
}

// challenger is a at the moment when it has sent a write that takes a record.
func challenger(t *testing.T) (*rig, time.Duration) {
	r := newRig(t, "a", "b")
	old := Seen{Version: 10, Record: Record{Holder: "b", Turn: 4, Mark: Mark{2, 1}, Duration: DefaultDuration, Peers: peersOf("a", "b")}}
	at := time.Duration(0)
	for ; at < 4*time.Second; at = r.m.Next() {
		r.did(r.m.Tick(at))
		if r.m.reading.busy {
			r.did(r.m.Called(at, r.m.reading.id, Done, old))
		}
		if r.m.writing.busy {
			break
		}
	}
	if at != DefaultDuration {
		t.Fatalf("takes at %v", at)
	}
	return r, at
}

func (r *rig) answers(at time.Duration) ask.Flags {
	r.t.Helper()
	r.did(r.m.Heard(at, ask.Message{Kind: ask.Question, From: "b", To: "a", Duration: DefaultDuration}))
	for _, a := range r.all {
		if a.Do == Send && a.Message.Kind == ask.Answer {
			return a.Message.Flags
		}
	}
	r.t.Fatal("no answer")
	return 0
}

func TestWhoMightHaveTakenItPromisesNothing(t *testing.T) {
	r, at := challenger(t)
	taken := r.wrote()
	r.did(r.m.Called(at+600*ms, r.last[Write].ID, Failed, Seen{}))
	r.lose(at + 2200*ms)
	if f := r.answers(at + 2200*ms); f&ask.Reached == 0 {
		t.Error("promises, and its write may have been done")
	}
	r.lose(at + 2300*ms)
	if f := r.answers(at + 2300*ms); f&(ask.Reached|ask.Holding) != 0 {
		t.Errorf("does not promise when its write is worth nothing any more: %b", f)
	}
	r.did(r.m.News(at+2400*ms, taken))
	if r.has(Hold) {
		t.Error("holds by a write that it has promised away")
	}
}

func TestAPromiseIsKept(t *testing.T) {
	r, at := challenger(t)
	mine := r.wrote()
	r.did(r.m.Called(at, r.last[Write].ID, Conflict, Seen{}))
	r.lose(at + 2*time.Second)
	promised := at + 2*time.Second
	if f := r.answers(promised); f&ask.Reached != 0 {
		t.Fatal("reaches an API that is lost")
	}
	other := Seen{Version: mine.Version, Record: Record{Holder: "b", Turn: 4, Mark: Mark{2, 2}, Duration: DefaultDuration, Peers: peersOf("a", "b")}}
	for now := promised + ms; now < promised+2490*ms; now = max(now+10*ms, min(r.m.Next(), now+50*ms)) {
		r.did(r.m.Tick(now))
		if r.m.reading.busy {
			r.did(r.m.Called(now, r.m.reading.id, Done, other))
		}
		if r.m.writing.busy {
			t.Fatalf("takes it %v after the promise", now-promised)
		}
	}
}

func TestASupersededHolderLetsGo(t *testing.T) {
	r := newRig(t, "a", "b").holding()
	r.did(r.m.News(100*ms, Seen{Version: 50, Record: Record{Holder: "b", Turn: 9, Mark: Mark{2, 2}, Duration: DefaultDuration, Peers: peersOf("a", "b")}}))
	if r.last[Release].Cause != CauseSuperseded {
		t.Errorf("%+v", r.all)
	}
}

package pair

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/wal"
)

// The tests below are of agent a, at 100 s of its clock; etcd was started, or had
// stopped, at 50 s. The record has the nonce "n7" and generation 7.
const (
	now     = 100 * time.Second
	idA     = wal.ID(1)
	idB     = wal.ID(2)
	ofPair  = wal.ID(0xc1)
	another = wal.ID(0xc2)
)

// situation is what a case changes of a view in which nothing is wrong.
type situation func(*Config, *State, *View)

// decideCase says of a situation what is done, and in which words why.
type decideCase struct {
	rule string
	in   []situation
	do   Action
	why  string
	// check looks at the rest, if it is set.
	check func(t *testing.T, s State, p Plan)
}

func rec(state arbiter.State, survivor string) situation {
	return func(_ *Config, _ *State, v *View) {
		v.Arbiter.Record.State, v.Arbiter.Record.Survivor = state, survivor
	}
}

var (
	paired     = rec(arbiter.Paired, "")
	soloA      = rec(arbiter.Solo, "a")
	soloB      = rec(arbiter.Solo, "b")
	held       = func(_ *Config, _ *State, v *View) { v.Arbiter.Record.Held = true }
	noRecord   = func(_ *Config, _ *State, v *View) { v.Arbiter.Record = arbiter.Record{} }
	unknown    = func(_ *Config, _ *State, v *View) { v.Arbiter = Arbiter{} }
	silent     = func(_ *Config, _ *State, v *View) { v.Arbiter.Trouble, v.Arbiter.Asked = Silent, now-40*time.Second }
	goneBack   = func(_ *Config, _ *State, v *View) { v.Arbiter.Trouble, v.Arbiter.Detail = Wrong, "gone back" }
	untried    = func(_ *Config, _ *State, v *View) { v.Arbiter.Untried = "no race yet" }
	unfit      = func(_ *Config, _ *State, v *View) { v.Arbiter.Unfit = "two won the race" }
	foreign    = func(_ *Config, _ *State, v *View) { v.Arbiter.Record.Cluster = another }
	others     = func(_ *Config, _ *State, v *View) { v.Arbiter.Record.Members[0].Name = "x" }
	alone      = func(_ *Config, _ *State, v *View) { v.Members.Voters, v.Members.Peer = 1, 0 }
	noMembers  = func(_ *Config, _ *State, v *View) { v.Members = Members{} }
	three      = func(_ *Config, _ *State, v *View) { v.Members.Voters, v.Members.Peer = 3, 0 }
	learner    = func(_ *Config, _ *State, v *View) { v.Members.Voters, v.Members.SelfVoter = 1, false }
	joining    = func(_ *Config, _ *State, v *View) { v.Members.Learner = 9 }
	sawTwo     = func(_ *Config, s *State, _ *View) { s.SawTwo = true }
	loneStart  = func(_ *Config, s *State, _ *View) { s.Alone = true }
	unmet      = func(_ *Config, s *State, v *View) { s.Met, v.PeerSeen = false, 0 }
	blind      = func(_ *Config, _ *State, v *View) { v.Blind = "no client is reached" }
	noAnswer   = func(_ *Config, _ *State, v *View) { v.Quorum.Answers = now - 4*time.Second }
	peerUp     = func(_ *Config, _ *State, v *View) { v.PeerSeen = now - time.Second }
	wasLed     = func(_ *Config, _ *State, v *View) { v.Quorum.Led = true }
	prefer     = func(c *Config, _ *State, _ *View) { c.Prefer = "a" }
	stale      = func(c *Config, _ *State, _ *View) { c.ServeStale = true }
	mine       = func(_ *Config, s *State, _ *View) { s.Licence = "n7" }
	fromPair   = func(_ *Config, s *State, _ *View) { s.FromPaired = true }
	void       = func(_ *Config, s *State, _ *View) { s.Void = "n7" }
	oldClaim   = func(_ *Config, s *State, _ *View) { s.Licence, s.FromPaired = "n6", true }
	refused    = func(_ *Config, s *State, _ *View) { s.Refusal, s.RefusedUntil = "no space", now+time.Second }
	mended     = func(_ *Config, s *State, _ *View) { s.Refusal, s.RefusedUntil = "no space", now }
	leaderless = func(_ *Config, _ *State, v *View) { v.Quorum.Leader = false }
)

// lost has the quorum and the peer gone for d.
func lost(d time.Duration) situation {
	return func(_ *Config, _ *State, v *View) {
		v.Quorum.Confirmed, v.PeerSeen = now-d, min(v.PeerSeen, now-d)
	}
}

// stopped has etcd stopped for d, and its directory hold c.
func stopped(d time.Duration, c Content) situation {
	return func(_ *Config, _ *State, v *View) {
		v.Process = Process{Since: now - d}
		v.Members, v.Quorum.Answers, v.Quorum.Leader = Members{}, 0, false
		v.Log = Log{Content: c, Cluster: ofPair, Self: idA}
		switch c {
		case Unread, Empty:
			v.Log = Log{Content: c}
		case Unfit:
			v.Log = Log{Content: c, Detail: "a sum is wrong"}
		}
	}
}

// running has etcd started d ago.
func running(d time.Duration) situation {
	return func(_ *Config, _ *State, v *View) { v.Process = Process{Running: true, Since: now - d} }
}

// asked has the last read of the record sent d ago.
func asked(d time.Duration) situation {
	return func(_ *Config, _ *State, v *View) { v.Arbiter.Asked = now - d }
}

// survivor has b's etcd have answered d ago that it has these members.
func survivor(d time.Duration, ids ...wal.ID) situation {
	return func(_ *Config, _ *State, v *View) {
		v.Survivor = Survivor{Answered: now - d, Cluster: ofPair, Members: ids}
	}
}

func noLeave(_ *Config, _ *State, v *View) { v.Quorum.Unasked = "wrong password" }

func ownLearner(_ *Config, _ *State, v *View) { v.Log.Learner = true }

func startedAlone(_ *Config, s *State, _ *View) { s.Alone = true }

func unfitSelf(_ *Config, _ *State, v *View) { v.Log.Cluster, v.Log.Self = ofPair, idA }

func otherCluster(_ *Config, _ *State, v *View) { v.Survivor.Cluster = another }

// decideAs decides in a situation, changed from one in which nothing is wrong.
func decideAs(in []situation) (State, Plan) {
	cfg := Config{
		Self: "a", Peer: "b", LostAfter: 3 * time.Second, HeadStart: 1500 * time.Millisecond, BootGrace: 10 * time.Second,
		StuckAfter: 30 * time.Second, Patience: 5 * time.Second,
	}
	state := State{Met: true}
	fine := now - 100*time.Millisecond
	view := View{
		Now: now, PeerSeen: fine, Process: Process{Running: true, Since: now - 50*time.Second},
		Quorum:  Quorum{Confirmed: fine, Answers: fine, Leader: true},
		Members: Members{Known: true, Cluster: ofPair, Self: idA, Voters: 2, SelfVoter: true, Peer: idB},
		Arbiter: Arbiter{Known: true, Asked: fine, Record: arbiter.Record{
			Version: 1, Cluster: ofPair, Generation: 7, State: arbiter.Paired, Nonce: "n7",
			Members: [2]arbiter.Member{{Name: "a", ID: idA}, {Name: "b", ID: idB}},
		}},
	}
	for _, change := range in {
		change(&cfg, &state, &view)
	}
	return Decide(cfg, state, view)
}

func in(all ...situation) []situation { return all }

func runCases(t *testing.T, cases []decideCase) {
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			s, p := decideAs(c.in)
			if p.Do != c.do || !strings.Contains(p.Why, c.why) {
				t.Fatalf("%s: %q, want %s: %q", p.Do, p.Why, c.do, c.why)
			}
			if p.Why == "" || p.Read <= 0 {
				t.Errorf("plan without a reason or an age of the record: %+v", p)
			}
			if c.check != nil {
				c.check(t, s, p)
			}
		})
	}
}

func alarmed(t *testing.T, _ State, p Plan) {
	t.Helper()
	if !p.Alarm {
		t.Error("no alarm")
	}
}

func quiet(t *testing.T, _ State, p Plan) {
	t.Helper()
	if p.Alarm {
		t.Error("an alarm")
	}
}

// next checks the record that a plan writes.
func next(state arbiter.State, survivor string, a, b wal.ID) func(*testing.T, State, Plan) {
	return func(t *testing.T, _ State, p Plan) {
		t.Helper()
		r := p.Next
		if r.State != state || r.Survivor != survivor || r.Members[0] != (arbiter.Member{Name: "a", ID: a}) ||
			r.Members[1] != (arbiter.Member{Name: "b", ID: b}) || r.Cluster != ofPair {
			t.Errorf("next record %+v", r)
		}
	}
}

func TestDecideBeforeTheArbiterIsKnown(t *testing.T) {
	runCases(t, []decideCase{
		{"never read: etcd is not started", in(unknown, stopped(time.Second, Two)), Nothing, "not started before the arbiter has been read", quiet},
		{"never read: a running etcd is left alone", in(unknown, lost(time.Minute)), Nothing, "etcd runs on as it is", quiet},
		{"never read: also one that is alone", in(unknown, alone), Nothing, "etcd runs on as it is", quiet},
		{"an arbiter gone back: a stopped one stays stopped", in(goneBack, stopped(time.Second, Two)), Nothing, "gone back", alarmed},
		{"an arbiter gone back: a pair needs nobody's leave", in(goneBack), Nothing, "gone back", alarmed},
		{"an arbiter gone back: no claim", in(goneBack, lost(time.Minute)), Nothing, "gone back", alarmed},
		{"an arbiter gone back: one alone stops", in(goneBack, alone), Stop, "may not serve alone any longer: gone back", alarmed},
		{"another cluster's record: one alone stops", in(soloA, foreign, alone), Stop, "of cluster c2, this member is of cluster c1", alarmed},
		{"another cluster's record: a pair goes on", in(foreign), Nothing, "of cluster c2", alarmed},
		{"another cluster's record: a stopped one stays stopped", in(foreign, stopped(time.Second, Two)), Nothing, "of cluster c2", alarmed},
		{"another pair's record", in(others), Nothing, `of members "x" and "b", not of "a" and "b"`, alarmed},
	})
}

func TestDecideWithoutARecord(t *testing.T) {
	barrier := func(want bool, check func(*testing.T, State, Plan)) func(*testing.T, State, Plan) {
		return func(t *testing.T, s State, p Plan) {
			if p.Barrier != want {
				t.Errorf("barrier: %v", p.Barrier)
			}
			check(t, s, p)
		}
	}
	runCases(t, []decideCase{
		{"stopped, not looked at: wait", in(noRecord, stopped(time.Second, Unread)), Nothing, "not been read yet", nil},
		{"stopped, damaged: no start", in(noRecord, stopped(time.Second, Unfit)), Nothing, "a sum is wrong", alarmed},
		{"a new pair is started as configured", in(noRecord, stopped(time.Second, Empty)), Start, "a new pair", nil},
		{"a pair without a record is started", in(noRecord, stopped(time.Second, Two)), Start, "a new pair", nil},
		{"a pair is started by an arbiter not tried yet", in(noRecord, untried, stopped(time.Second, Two)), Start, "a new pair", nil},
		{"nothing rests on an unfit arbiter", in(noRecord, unfit, stopped(time.Second, Two)), Nothing, "two won the race", alarmed},
		{"one alone makes the record before it starts", in(noRecord, stopped(time.Second, Alone)), Create, "alone", barrier(false, next(arbiter.Solo, "a", idA, 0))},
		{"but not at an arbiter not tried yet", in(noRecord, untried, stopped(time.Second, Alone)), Nothing, "no race yet", nil},
		{"no quorum, no record", in(noRecord, lost(2*time.Second)), Nothing, "first write that both acknowledge", nil},
		{"nothing known of the members, no record", in(noRecord, noMembers), Nothing, "first write that both acknowledge", nil},
		{"a pair makes it with a write that both took", in(noRecord), Create, "first record", barrier(true, next(arbiter.Paired, "", idA, idB))},
		{"a running pair makes none at an arbiter not tried yet", in(noRecord, untried), Nothing, "no race yet", nil},
		{"one alone that runs makes it", in(noRecord, alone), Create, "alone", barrier(false, next(arbiter.Solo, "a", idA, 0))},
		{"three voters are no pair", in(noRecord, three), Nothing, "this cluster has 3", alarmed},
	})
}

func TestDecidePaired(t *testing.T) {
	claims := func(t *testing.T, s State, p Plan) {
		next(arbiter.Solo, "a", idA, idB)(t, s, p)
	}
	runCases(t, []decideCase{
		{"stopped, not looked at: wait", in(paired, stopped(time.Second, Unread)), Nothing, "not been read yet", nil},
		{"stopped, data gone: the peer has to claim", in(paired, stopped(time.Second, Empty)), Nothing, "the data is gone", alarmed},
		{"stopped, alone: an old copy", in(paired, stopped(time.Second, Alone)), Nothing, "an old copy", alarmed},
		{"stopped, damaged", in(paired, stopped(time.Second, Unfit)), Nothing, "a sum is wrong", alarmed},
		{"stopped: start", in(paired, stopped(time.Second, Two)), Start, "paired, generation 7", nil},
		{"stopped: start though the arbiter is silent now", in(paired, silent, stopped(time.Second, Two)), Start, "paired, generation 7", nil},
		{"at rest the record is read every 10 s", in(paired), Nothing, "paired, generation 7", func(t *testing.T, _ State, p Plan) {
			if p.Read != restEvery || p.Alarm {
				t.Errorf("%+v", p)
			}
		}},
		{"a healthy pair does not need the arbiter", in(paired, silent), Nothing, "paired, generation 7", quiet},
		{"lost for less than it takes", in(paired, wasLed, lost(2900*time.Millisecond)), Nothing, "2.9s of 3s", quiet},
		{"the former leader claims after LostAfter", in(paired, wasLed, lost(3*time.Second)), Claim, "no quorum for 3s", claims},
		{"the preferred one as well", in(paired, prefer, lost(3*time.Second)), Claim, "no quorum for 3s", claims},
		{"the other one gives a head start", in(paired, lost(4400*time.Millisecond)), Nothing, "4.4s of 4.5s", nil},
		{"and claims then", in(paired, lost(4500*time.Millisecond)), Claim, "no quorum for 4.5s", claims},
		{"who has not met the peer waits longer", in(paired, wasLed, unmet, lost(12*time.Second)), Nothing, "12s of 13s", nil},
		{"not where etcd refuses our credentials", in(paired, wasLed, noLeave, lost(40*time.Second)), Nothing, "cannot be asked", nil},
		{"and claims then, too", in(paired, wasLed, unmet, lost(13*time.Second)), Claim, "no quorum for 13s", claims},
		{"time counts from the start of etcd", in(paired, wasLed, lost(20*time.Second), running(2*time.Second)), Nothing, "2s of 3s", nil},
		{"a peer that can be reached is not lost", in(paired, lost(10*time.Second), peerUp), Nothing, "the peer's etcd can be reached", nil},
		{"but is after StuckAfter", in(paired, lost(31*time.Second), peerUp), Claim, "no quorum for 31s", claims},
		{"an own etcd that does not answer claims nothing", in(paired, lost(10*time.Second), noAnswer), Nothing, "the own etcd does not answer", nil},
		{"a site that sees no clients claims nothing", in(paired, blind, lost(10*time.Second)), Nothing, "does not see its clients", alarmed},
		{"who cannot survive claims nothing", in(paired, refused, lost(10*time.Second)), Nothing, "cannot survive: no space", alarmed},
		{"until that has passed", in(paired, mended, lost(10*time.Second)), Claim, "no quorum", claims},
		{"nothing is claimed at an arbiter not tried", in(paired, untried, lost(10*time.Second)), Nothing, "no race yet", nil},
		{"nor at one that is unfit", in(paired, unfit, lost(10*time.Second)), Nothing, "two won the race", alarmed},
		{"members not known: lost all the same", in(paired, noMembers, lost(10*time.Second)), Claim, "no quorum", claims},
		{"members not known, quorum there", in(paired, noMembers), Nothing, "paired, generation 7", nil},
		{"the peer was removed through the cluster", in(paired, sawTwo, alone), Claim, "the peer was removed", claims},
		{"alone without having been two: an old copy", in(paired, alone), Stop, "an old copy", alarmed},
		{"three voters are no pair", in(paired, three), Nothing, "this cluster has 3", alarmed},
		{"a learner is no half of a pair", in(paired, learner), Nothing, "a pair has two voters", alarmed},
	})
}

func TestDecideSoloOfSelfRunning(t *testing.T) {
	pairs := func(t *testing.T, s State, p Plan) {
		next(arbiter.Paired, "", idA, idB)(t, s, p)
		if s.Void != "n7" {
			t.Error("a change to paired is on its way, and surgery may still rest on the record")
		}
	}
	fresh := func(t *testing.T, s State, p Plan) { next(arbiter.Solo, "a", idA, idB)(t, s, p) }
	runCases(t, []decideCase{
		{"alone: serves", in(soloA, alone), Nothing, "serves alone, generation 7", quiet},
		{"alone without the arbiter: serves", in(soloA, alone, silent), Nothing, "serves alone", quiet},
		{"a learner is promoted", in(soloA, alone, joining), Promote, "catching up", nil},
		{"not while a person holds it", in(soloA, alone, joining, held), Nothing, "a person asked for this member alone", nil},
		{"two voters: paired, with a write of both", in(soloA), Pair, "both members have a quorum", pairs},
		{"held: the peer is taken out", in(soloA, held), Expel, "a person asked", nil},
		{"no quorum, but the peer can be reached", in(soloA, lost(10*time.Second), peerUp), Nothing, "can be reached", nil},
		{"started as the only member, and slow: time, not surgery", in(soloA, noMembers, loneStart, lost(20*time.Second)), Nothing, "starting as the only member", nil},
		{"the same for a person, who does not wait long", in(soloA, held, noMembers, loneStart, lost(20*time.Second)), Nothing, "starting as the only member", nil},
		{"started as the only member, with a peer since", in(soloA, loneStart, lost(3*time.Second)), Claim, "a new licence", fresh},
		{"no quorum, no licence: a new one", in(soloA, lost(3*time.Second)), Claim, "a new licence", fresh},
		{"another claim's nonce is none", in(soloA, oldClaim, lost(3*time.Second)), Claim, "a new licence", func(t *testing.T, s State, p Plan) {
			if s.Licence != "" || s.FromPaired {
				t.Errorf("%+v", s)
			}
		}},
		{"no new licence where etcd refuses our credentials", in(soloA, noLeave, lost(40*time.Second)), Nothing, "cannot be asked", nil},
		{"held, no quorum: at once", in(soloA, held, lost(1600*time.Millisecond)), Claim, "a new licence", func(t *testing.T, _ State, p Plan) {
			if !p.Next.Held {
				t.Error("a claim ends what a person holds")
			}
		}},
		{"a licence that was tried to be given up is none", in(soloA, mine, void, lost(3*time.Second)), Claim, "a new licence", fresh},
		{"with a licence: stop", in(soloA, mine, lost(1600*time.Millisecond)), Stop, "to be made the only one", nil},
		{"not with an arbiter that cannot be read", in(soloA, mine, lost(10*time.Second), asked(2*time.Second)), Nothing, "must be readable", alarmed},
		{"not with an own etcd that does not answer", in(soloA, mine, lost(10*time.Second), noAnswer), Nothing, "does not answer", nil},
		{"started as the only member: it needs time, not surgery", in(soloA, noMembers, startedAlone, lost(10*time.Second)), Nothing, "starting as the only member", quiet},
		{"unless it turns out to be two", in(soloA, startedAlone, lost(10*time.Second)), Claim, "a new licence", fresh},
		{"who cannot survive stays", in(soloA, mine, refused, lost(10*time.Second)), Nothing, "cannot survive", alarmed},
		{"no new licence at an arbiter not tried", in(soloA, untried, lost(10*time.Second)), Nothing, "no race yet", nil},
	})
}

func TestDecideSoloOfSelfStopped(t *testing.T) {
	givesBack := func(t *testing.T, s State, p Plan) {
		next(arbiter.Paired, "", idA, idB)(t, s, p)
		if s.Void != "n7" || !p.Alarm {
			t.Errorf("%+v, %+v", s, p)
		}
	}
	runCases(t, []decideCase{
		{"not looked at: wait", in(soloA, stopped(time.Second, Unread)), Nothing, "not been read yet", nil},
		{"data gone: a person", in(soloA, stopped(time.Second, Empty)), Nothing, "--accept-data-loss", alarmed},
		{"alone: start", in(soloA, stopped(time.Second, Alone)), Start, "serves alone", nil},
		{"alone, arbiter silent: start", in(soloA, silent, stopped(time.Second, Alone)), Start, "serves alone", nil},
		{"damaged, claimed elsewhere: a person", in(soloA, stopped(time.Second, Unfit)), Nothing, "a sum is wrong", alarmed},
		{"damaged, claimed from paired: given back", in(soloA, mine, fromPair, stopped(time.Second, Unfit)), GiveBack, "a sum is wrong", givesBack},
		{"damaged, claimed from solo: not given back", in(soloA, mine, stopped(time.Second, Unfit)), Nothing, "a sum is wrong", alarmed},
		{"a learner: an old copy", in(soloA, stopped(time.Second, Two), ownLearner), Nothing, "a learner", alarmed},
		{"refused, claimed from paired: given back", in(soloA, mine, fromPair, refused, stopped(time.Second, Two)), GiveBack, "no space", givesBack},
		{"given back again, until it is known to be done", in(soloA, mine, fromPair, void, refused, stopped(time.Second, Two)), GiveBack, "no space", givesBack},
		{"refused, claimed from solo: a person", in(soloA, mine, refused, stopped(time.Second, Two)), Nothing, "no space", alarmed},
		{"no licence: start, the peer may be there", in(soloA, stopped(time.Second, Two)), Start, "perhaps the peer is there", nil},
		{"another claim's nonce: start", in(soloA, oldClaim, stopped(time.Second, Two)), Start, "perhaps the peer is there", nil},
		{"a licence given up: start", in(soloA, mine, void, stopped(time.Second, Two)), Start, "perhaps the peer is there", nil},
		{"licence, record read after the stop: edit", in(soloA, mine, stopped(time.Second, Two), asked(500*time.Millisecond)), Edit, "read after the stop", nil},
		{"licence, record read before the stop: read again", in(soloA, mine, stopped(time.Second, Two), asked(1200*time.Millisecond)), Nothing, "read again", func(t *testing.T, _ State, p Plan) {
			if p.Read > time.Second {
				t.Errorf("the record may be %s old", p.Read)
			}
		}},
		{"licence, record read at the very stop: read again", in(soloA, mine, stopped(time.Second, Two), asked(time.Second)), Nothing, "read again", nil},
		{"licence, arbiter silent after the stop: no edit", in(soloA, mine, stopped(time.Second, Two), silent), Nothing, "read again", nil},
		{"licence, arbiter silent for too long: start unedited", in(soloA, mine, stopped(6*time.Second, Two), silent), Start, "as it was", alarmed},
	})
}

func TestDecideSoloOfThePeerStopped(t *testing.T) {
	const b = idB
	runCases(t, []decideCase{
		{"not looked at: wait", in(soloB, stopped(time.Minute, Unread)), Nothing, "not been read yet", nil},
		{"the survivor does not answer: wait", in(soloB, stopped(time.Minute, Two), survivor(3*time.Second, b)), Nothing, "does not answer here", nil},
		{"it never did: wait", in(soloB, stopped(time.Minute, Two)), Nothing, "does not answer here", nil},
		{"what answers is another cluster", in(soloB, stopped(time.Minute, Two), survivor(time.Second, b), otherCluster), Nothing, "is of cluster c2", alarmed},
		{"it lists this one as a voter: start", in(soloB, stopped(time.Minute, Two), survivor(time.Second, idA, b)), Start, "has this member", nil},
		{"it lists this one as a learner: start", in(soloB, stopped(time.Minute, Two), ownLearner, survivor(time.Second, idA, b)), Start, "has this member", nil},
		{"it lists more than two: wait", in(soloB, stopped(time.Minute, Two), survivor(time.Second, idA, b, 5)), Nothing, "not of two", nil},
		{"it does not list this one: set aside", in(soloB, stopped(time.Minute, Two), survivor(time.Second, b)), SetAside, "serves without", nil},
		{"one that is alone is set aside, listed or not", in(soloB, stopped(time.Minute, Alone), survivor(time.Second, idA, b)), SetAside, "serves without", nil},
		{"the record was read before the stop: read again", in(soloB, stopped(time.Second, Two), survivor(500*time.Millisecond, b), asked(1200*time.Millisecond)), Nothing, "read again before data is set aside", nil},
		{"alone, the record was read before the stop: read again", in(soloB, stopped(time.Second, Alone), survivor(500*time.Millisecond, idA, b), asked(1200*time.Millisecond)), Nothing, "read again before data is set aside", nil},
		{"the arbiter is silent: nothing is set aside", in(soloB, stopped(time.Minute, Two), survivor(time.Second, b), silent), Nothing, "read again before data is set aside", nil},
		{"damaged, not listed: set aside", in(soloB, stopped(time.Minute, Unfit), survivor(time.Second, b)), SetAside, "serves without", nil},
		{"damaged, listed: a person", in(soloB, stopped(time.Minute, Unfit), unfitSelf, survivor(time.Second, idA, b)), Nothing, "a sum is wrong", alarmed},
		{"held: no join, nothing set aside", in(soloB, held, stopped(time.Minute, Two), survivor(time.Second, b)), Nothing, "holdfast pair release", nil},
		{"held: but what it lists is started", in(soloB, held, stopped(time.Minute, Two), survivor(time.Second, idA, b)), Start, "has this member", nil},
		{"it answered before the stop: once more", in(soloB, stopped(time.Second, Two), survivor(1200*time.Millisecond, b)), Nothing, "answer once more", nil},
		{"nothing there: join", in(soloB, stopped(time.Minute, Empty), survivor(time.Second, b)), Join, "has no such member", nil},
		{"nothing there, an entry of an earlier join: join", in(soloB, stopped(time.Minute, Empty), survivor(time.Second, b, 5)), Join, "has no such member", nil},
		{"nothing there, but held: no join", in(soloB, held, stopped(time.Minute, Empty), survivor(time.Second, b)), Nothing, "holdfast pair release", nil},
	})
}

func TestDecideSoloOfThePeerRunning(t *testing.T) {
	const b = idB
	runCases(t, []decideCase{
		{"alone: stop", in(soloB, alone), Stop, "this member not", alarmed},
		{"a quorum with the survivor stands", in(soloB), Nothing, "a quorum with the survivor", nil},
		{"catching up", in(soloB, learner, lost(time.Minute), survivor(time.Second, idA, b)), Nothing, "catching up", nil},
		{"listed, no leader yet: wait", in(soloB, lost(time.Minute), leaderless, survivor(time.Second, idA, b)), Nothing, "waiting for its leader", nil},
		{"listed long ago, no leader: stop", in(soloB, lost(time.Minute), leaderless, survivor(4*time.Second, idA, b)), Stop, "serves alone", nil},
		{"just started, nothing known: wait", in(soloB, noMembers, lost(time.Minute), running(20*time.Second), survivor(time.Second, b)), Nothing, "etcd is starting", nil},
		{"started long ago, nothing known: stop", in(soloB, noMembers, lost(time.Minute), running(31*time.Second), survivor(time.Second, b)), Stop, "serves alone", nil},
		{"what the survivor said before the start is old", in(soloB, learner, lost(time.Minute), running(time.Second), survivor(2*time.Second, b)), Nothing, "not answered since etcd was started", nil},
		{"also for a learner that has heard of no leader yet", in(soloB, learner, leaderless, lost(time.Minute), running(time.Second), survivor(2*time.Second, b)), Nothing, "not answered since etcd was started", nil},
		{"but a voter without a leader stops", in(soloB, leaderless, lost(time.Minute), running(time.Second), survivor(2*time.Second, b)), Stop, "serves alone", nil},
		{"what it says since counts", in(soloB, learner, lost(time.Minute), running(3*time.Second), survivor(2*time.Second, b)), Stop, "serves alone", nil},
		{"not listed: stop", in(soloB, lost(2*time.Second), survivor(time.Second, b)), Stop, "serves alone", nil},
		{"no quorum, no answer: stop", in(soloB, lost(2*time.Second)), Stop, "serves alone", nil},
		{"stale reads until the survivor answers", in(soloB, stale, lost(2*time.Second)), Nothing, "serves stale reads", nil},
		{"and then no more", in(soloB, stale, lost(2*time.Second), survivor(time.Second, b)), Stop, "serves alone", nil},
		{"stale reads while a person holds it", in(soloB, stale, held, lost(2*time.Second), survivor(time.Second, b)), Nothing, "serves stale reads", nil},
	})
}

// TestDecideOfTheSecond has b make the record: its members stand by name.
func TestDecideOfTheSecond(t *testing.T) {
	_, p := decideAs(in(noRecord, func(c *Config, _ *State, v *View) {
		c.Self, c.Peer, v.Members.Self, v.Members.Peer = "b", "a", idB, idA
	}))
	next(arbiter.Paired, "", idA, idB)(t, State{}, p)
}

// TestDecideIsPure decides twice.
func TestDecideIsPure(t *testing.T) {
	for _, all := range [][]situation{in(paired, lost(10*time.Second)), in(soloA), in(soloB, stopped(time.Minute, Two), survivor(time.Second, idB))} {
		s1, p1 := decideAs(all)
		s2, p2 := decideAs(all)
		if s1 != s2 || p1 != p2 {
			t.Errorf("%+v %+v, and again %+v %+v", s1, p1, s2, p2)
		}
	}
}

// A directory in which self is alone is remembered until etcd has had a quorum, and
// forgotten with the next one.
func TestStartedAlone(t *testing.T) {
	for _, tc := range []struct {
		name      string
		was, want bool
		in        []situation
	}{
		{"read before the start", false, true, []situation{soloA, stopped(time.Second, Alone)}},
		{"a directory with two voters", true, false, []situation{soloA, stopped(time.Second, Two)}},
		{"not read yet", true, true, []situation{soloA, stopped(time.Second, Unread)}},
		{"runs and has no quorum yet", true, true, []situation{soloA, noMembers, running(2 * time.Second), lost(5 * time.Second)}},
		{"runs and has one", true, false, []situation{soloA, alone}},
		{"runs and has a peer", true, false, []situation{soloA, lost(time.Minute)}},
	} {
		in := append([]situation{func(_ *Config, s *State, _ *View) { s.Alone = tc.was }}, tc.in...)
		if s, _ := decideAs(in); s.Alone != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, s.Alone, tc.want)
		}
	}
}

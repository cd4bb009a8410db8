package leader

import (
	"reflect"
	"testing"
	"time"
)

// Members of the tests: a leads, b is cut off from it, c sees both.
const (
	idA MemberID = 0xa
	idB MemberID = 0xb
	idC MemberID = 0xc
	idD MemberID = 0xd
)

func up(d time.Duration) Link   { return Link{State: Up, Since: d, RTT: 10 * time.Millisecond} }
func down(d time.Duration) Link { return Link{State: Down, Since: d} }

// split is a partial split that has lasted long enough for a move to c.
func split() Snapshot {
	const long = time.Hour
	row := func(id MemberID, name string, lead MemberID) Row {
		return Row{Member: id, Cluster: 1, Name: name, Reachable: true, Leader: lead, Term: 4, Applied: 100, Index: 100}
	}
	a, b, c := row(idA, "a", idA), row(idB, "b", 0), row(idC, "c", idA)
	a.Links = map[MemberID]Link{idB: down(3 * time.Second), idC: up(long)}
	b.Links = map[MemberID]Link{idA: down(3 * time.Second), idC: up(long)}
	c.Links = map[MemberID]Link{idA: up(long), idB: up(long)}
	b.LeaderlessFor = 1500 * time.Millisecond
	return Snapshot{
		Now: time.Hour, Self: idA, Own: a, Rows: map[MemberID]Row{idB: b, idC: c},
		Voters:        []Voter{{idC, "c"}, {idA, "a"}, {idB, "b"}},
		VotersChanged: long, PenaltyKnown: true, QuietFor: time.Minute,
	}
}

// seasoned is the state of an agent that has seen c fit for a minute.
func seasoned() State {
	began := time.Hour - time.Minute
	return State{begun: true, term: 4, leadingSince: began, decided: time.Hour - time.Second, standing: []standing{{idC, began}, {idD, began}}}
}

func edit(s *Snapshot, id MemberID, change func(*Row)) {
	r := s.Rows[id]
	change(&r)
	s.Rows[id] = r
}

func TestDecide(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Snapshot, *State)
		want   Refusal
		wait   time.Duration
	}{
		{"partial split", func(*Snapshot, *State) {}, "", 0},
		{"own member silent", func(s *Snapshot, _ *State) { s.Own.Reachable = false }, OwnUnreachable, 0},
		{"another leads", func(s *Snapshot, _ *State) { s.Own.Leader = idC }, NotLeader, 0},
		{"nobody leads", func(s *Snapshot, _ *State) { s.Own.Leader = 0 }, NotLeader, 0},
		{"own member is no voter", func(s *Snapshot, _ *State) { s.Voters = s.Voters[2:] }, NotLeader, 0},
		{"deposed and does not know", func(s *Snapshot, _ *State) {
			edit(s, idC, func(r *Row) { r.Leader, r.Term = idC, 5 })
		}, Superseded, 0},
		{"members changed", func(s *Snapshot, _ *State) { s.VotersChanged = time.Second }, MembershipChanging, 0},
		{"b has its leader", func(s *Snapshot, _ *State) { edit(s, idB, func(r *Row) { r.Leader = idA }) }, NobodyLost, 0},
		{"b restarts", func(s *Snapshot, _ *State) { edit(s, idB, func(r *Row) { r.Reachable = false }) }, NobodyLost, 0},
		{"b's row is missing", func(s *Snapshot, _ *State) { delete(s.Rows, idB) }, NobodyLost, 0},
		{"b's row is stale", func(s *Snapshot, _ *State) { edit(s, idB, func(r *Row) { r.Age = 9 * time.Second }) }, NobodyLost, 0},
		{"b's row is of another cluster", func(s *Snapshot, _ *State) { edit(s, idB, func(r *Row) { r.Cluster = 2 }) }, NobodyLost, 0},
		{"b still reaches a", func(s *Snapshot, _ *State) { edit(s, idB, func(r *Row) { r.Links[idA] = up(time.Hour) }) }, LinkUncertain, 0},
		{"b knows nothing of its links", func(s *Snapshot, _ *State) { edit(s, idB, func(r *Row) { delete(r.Links, idA) }) }, LinkUncertain, 0},
		{"a's probes begin to succeed", func(s *Snapshot, _ *State) {
			s.Own.Links[idB] = Link{State: Down, Since: time.Minute, Doubt: true}
		}, LinkUncertain, 0},
		{"nobody sees b", func(s *Snapshot, _ *State) {
			edit(s, idB, func(r *Row) { r.Links[idC] = down(time.Minute) })
			edit(s, idC, func(r *Row) { r.Links[idB] = down(time.Minute) })
		}, NoBetter, 0},
		{"b contradicts c, and later", func(s *Snapshot, _ *State) {
			edit(s, idB, func(r *Row) { r.Links[idC] = down(2 * time.Second) })
		}, NoBetter, 0},
		{"b loses half its probes to c", func(s *Snapshot, _ *State) {
			for _, end := range [][2]MemberID{{idB, idC}, {idC, idB}} {
				edit(s, end[0], func(r *Row) { r.Links[end[1]] = Link{State: Up, Since: time.Hour, Loss: 0.5} })
			}
		}, NoBetter, 0},
		{"a loses a third of its probes to b", func(s *Snapshot, _ *State) {
			s.Own.Links[idB] = Link{State: Up, Since: time.Hour, Loss: 0.33}
			edit(s, idB, func(r *Row) { r.Links[idA] = Link{State: Up, Since: time.Hour, Loss: 0.4} })
		}, "", 0},
		{"c's row is stale", func(s *Snapshot, _ *State) {
			// b vouches for c, so c would be better placed.
			edit(s, idC, func(r *Row) { r.Age = 9 * time.Second })
		}, StaleTarget, 0},
		{"c's etcd is silent", func(s *Snapshot, _ *State) { edit(s, idC, func(r *Row) { r.Reachable = false }) }, TargetUnreachable, 0},
		{"c has an alarm", func(s *Snapshot, _ *State) { edit(s, idC, func(r *Row) { r.Alarms = []string{"NOSPACE"} }) }, TargetAlarm, 0},
		{"c is in another term", func(s *Snapshot, _ *State) { edit(s, idC, func(r *Row) { r.Term = 3 }) }, TargetDisagrees, 0},
		{"a cannot reach c", func(s *Snapshot, _ *State) {
			s.Own.Links[idC] = Link{}
			edit(s, idC, func(r *Row) { r.Links[idA] = Link{} })
			s.Voters = append(s.Voters, Voter{idD, "d"})
			s.Rows[idD] = s.Rows[idC]
			edit(s, idD, func(r *Row) {
				r.Member, r.Leader, r.Links = idD, 0, map[MemberID]Link{idC: up(time.Hour), idA: down(time.Hour)}
			})
			s.Own.Links[idD] = down(time.Hour)
		}, TargetUnlinked, 0},
		{"c lacks entries", func(s *Snapshot, _ *State) {
			s.Own.Index = 10000
		}, TargetBehind, 0},
		{"c applies slowly", func(s *Snapshot, _ *State) { edit(s, idC, func(r *Row) { r.Index = 9000 }) }, TargetBehind, 0},
		{"c has a slow disk", func(s *Snapshot, _ *State) { edit(s, idC, func(r *Row) { r.Fsync = time.Second }) }, TargetSlow, 0},
		{"link down for half the settle", func(s *Snapshot, _ *State) {
			s.Own.Links[idB] = down(time.Second)
			edit(s, idB, func(r *Row) { r.Links[idA] = down(1200 * time.Millisecond) })
		}, Settling, time.Second},
		{"c sees b only now", func(s *Snapshot, _ *State) {
			edit(s, idC, func(r *Row) { r.Links[idB] = up(1500 * time.Millisecond) })
			edit(s, idB, func(r *Row) { r.Links[idC] = Link{} })
		}, Settling, 500 * time.Millisecond},
		{"b lost its leader only now", func(s *Snapshot, _ *State) {
			edit(s, idB, func(r *Row) { r.LeaderlessFor = 200 * time.Millisecond })
		}, Settling, 800 * time.Millisecond},
		{"b's row says so only by its age", func(s *Snapshot, _ *State) {
			edit(s, idB, func(r *Row) { r.LeaderlessFor, r.Age = 2*time.Second, 1900*time.Millisecond })
		}, Settling, 900 * time.Millisecond},
		{"a leads only now", func(_ *Snapshot, st *State) { st.term = 3 }, Settling, 6 * time.Second},
		{"the agent slept", func(_ *Snapshot, st *State) { st.decided -= 2 * time.Second }, Settling, 6 * time.Second},
		{"c knows that a slept", func(s *Snapshot, _ *State) {
			edit(s, idC, func(r *Row) { r.Links[idA] = down(time.Second) })
		}, TargetUnlinked, 0},
		{"the record is unknown", func(s *Snapshot, _ *State) { s.PenaltyKnown = false }, PenaltyUnknown, 0},
		{"a move just now", func(s *Snapshot, _ *State) { s.Penalty = Penalty{Seq: 1, Value: 1} }, Damped, 31 * time.Second},
		{"a record in a row", func(s *Snapshot, _ *State) {
			edit(s, idC, func(r *Row) { r.Penalty = Penalty{Seq: 1, Value: 1} })
		}, Damped, 31 * time.Second},
		{"a move 31 s ago", func(s *Snapshot, st *State) {
			s.Penalty = Penalty{Seq: 1, Value: 1}
			st.penalty = sighting{s.Penalty, s.Now - 31*time.Second - time.Millisecond}
		}, "", 0},
		{"started under NOSPACE", func(s *Snapshot, st *State) { s.Unrecorded, st.begun = true, false }, Damped, 31 * time.Second},
		{"the last attempt failed", func(s *Snapshot, st *State) {
			*st = st.Failed(Default(), s.Now, Move{Target: idC}, true)
		}, BackingOff, 10 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			snap, st := split(), seasoned()
			test.change(&snap, &st)
			_, plan := Decide(Default(), st, snap)
			if plan.Refused != test.want || (plan.Move == nil) != (test.want != "") {
				t.Fatalf("refused %q (move %v), want %q", plan.Refused, plan.Move, test.want)
			}
			if test.wait != 0 && (plan.Wait-test.wait).Abs() > time.Millisecond {
				t.Errorf("wait %s, want %s", plan.Wait, test.wait)
			}
			if plan.Move != nil && plan.Move.Target != idC {
				t.Errorf("moves to %s, want c", plan.Move.Target)
			}
		})
	}
}

func TestDecideIsPure(t *testing.T) {
	snap, st := split(), seasoned()
	first, one := Decide(Default(), st, snap)
	if !reflect.DeepEqual(snap, split()) || !reflect.DeepEqual(st, seasoned()) {
		t.Error("Decide changed its arguments")
	}
	second, two := Decide(Default(), st, snap)
	if !reflect.DeepEqual(first, second) || !reflect.DeepEqual(one, two) {
		t.Error("the same arguments gave another answer")
	}
}

func TestMoveCarriesItsRecord(t *testing.T) {
	snap, st := split(), seasoned()
	snap.Penalty = Penalty{Seq: 7, Value: 1}
	st.penalty = sighting{snap.Penalty, snap.Now - 61*time.Second}
	_, plan := Decide(Default(), st, snap)
	if plan.Move == nil {
		t.Fatalf("refused %q", plan.Refused)
	}
	if want := (Penalty{Seq: 8, Value: 1.25, From: idA, To: idC, Term: 4}); plan.Move.Record != want {
		t.Errorf("record %+v, want %+v", plan.Move.Record, want)
	}
	if want := (Penalty{Seq: 9, Value: 0.25, From: idA, To: idC, Term: 4}); plan.Move.Undo != want {
		t.Errorf("undo %+v, want %+v", plan.Move.Undo, want)
	}
}

// TestFailureUnderHoldBeginsNoHold: taking a record back must not cost the
// two minutes that a move costs.
func TestFailureUnderHoldBeginsNoHold(t *testing.T) {
	cfg, snap, st := Seed(), split(), seasoned()
	snap.Own.Links[idB] = down(time.Minute)
	edit(&snap, idB, func(r *Row) { r.Links[idA], r.LeaderlessFor = down(time.Minute), time.Minute })
	st.penalty = sighting{Penalty{Seq: 1, Value: 1}, snap.Now - 3*time.Minute}
	st, plan := Decide(cfg, st, snap)
	if plan.Move == nil {
		t.Fatalf("refused %q", plan.Refused)
	}
	st = st.Started(snap.Now, *plan.Move).Failed(cfg, snap.Now, *plan.Move, false)
	snap.Now += 20 * time.Second
	st.decided = snap.Now
	if _, plan = Decide(cfg, st, snap); plan.Move == nil {
		t.Errorf("refused %q for %s after a failed move", plan.Refused, plan.Wait)
	}
}

// TestPreference: both c and d see all.
func TestPreference(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Config, *Snapshot)
		want   MemberID
	}{
		{"the smaller id", func(*Config, *Snapshot) {}, idC},
		{"the zone order first", func(c *Config, _ *Snapshot) { c.Zones = []string{"z", "y"} }, idD},
		{"then the quorum latency", func(_ *Config, s *Snapshot) {
			edit(s, idD, func(r *Row) {
				for id, l := range r.Links {
					l.RTT = time.Millisecond
					r.Links[id] = l
				}
			})
		}, idD},
		{"seeing all before the zone", func(c *Config, s *Snapshot) {
			c.Zones = []string{"z", "y"}
			s.Voters = append(s.Voters, Voter{0xe, "e"})
			s.Own.Links[0xe] = down(time.Hour) // a silent member that c alone sees
			edit(s, idC, func(r *Row) { r.Links[0xe] = up(time.Hour) })
		}, idC},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg, snap := Default(), split()
			snap.Voters = append(snap.Voters, Voter{idD, "d"})
			snap.Own.Links[idD] = up(time.Hour)
			snap.Rows[idD] = Row{
				Member: idD, Cluster: 1, Zone: "z", Reachable: true, Leader: idA, Term: 4, Applied: 100, Index: 100,
				Links: map[MemberID]Link{idA: up(time.Hour), idB: up(time.Hour), idC: up(time.Hour)},
			}
			edit(&snap, idC, func(r *Row) { r.Zone, r.Links[idD] = "y", up(time.Hour) })
			test.change(&cfg, &snap)
			_, plan := Decide(cfg, seasoned(), snap)
			if plan.Move == nil || plan.Move.Target != test.want {
				t.Errorf("got %+v, want a move to %s", plan, test.want)
			}
		})
	}
}

func TestConfirm(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Snapshot)
		want   Refusal
	}{
		{"as planned", func(*Snapshot) {}, ""},
		{"deposed", func(s *Snapshot) { s.Own.Leader = idC }, NotLeader},
		{"led again, in another term", func(s *Snapshot) { s.Own.Term = 6 }, Superseded},
		{"target removed", func(s *Snapshot) { s.Voters = s.Voters[1:] }, MembershipChanging},
		{"target silent", func(s *Snapshot) { edit(s, idC, func(r *Row) { r.Reachable = false }) }, TargetUnreachable},
		{"b is back", func(s *Snapshot) { edit(s, idB, func(r *Row) { r.Leader = idA }) }, NoBetter},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			st, plan := Decide(Default(), seasoned(), split())
			snap := split()
			test.change(&snap)
			if got := Confirm(Default(), st, snap, *plan.Move); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

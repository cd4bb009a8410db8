package leader

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
)

// slow is a whole cluster whose leader a has had a slow disk for three readings, while
// those of b and c are fast.
func slow() Snapshot {
	s := split()
	const long = time.Hour
	s.Own.Links[idB] = up(long)
	s.Own.Fsync, s.SlowFor = 1024*time.Millisecond, 20*time.Second
	edit(&s, idB, func(r *Row) {
		r.Leader, r.LeaderlessFor, r.Links[idA], r.Fsync = idA, 0, up(long), 2*time.Millisecond
	})
	edit(&s, idC, func(r *Row) { r.Fsync = 2 * time.Millisecond })
	return s
}

func TestRelief(t *testing.T) {
	late := func(cfg *Config) { cfg.SlowFor = time.Minute }
	for _, tc := range []struct {
		name   string
		change func(*Snapshot, *State)
		config func(*Config)
		want   Refusal
		target MemberID
	}{
		{"a fast disk elsewhere", func(*Snapshot, *State) {}, nil, "", idB},
		{"a blip", func(s *Snapshot, _ *State) { s.SlowFor = 10 * time.Second }, nil, NobodyLost, 0},
		{"the own disk is well again", func(s *Snapshot, _ *State) { s.SlowFor = 0 }, nil, NobodyLost, 0},
		{"not for as long as is asked", func(*Snapshot, *State) {}, late, NobodyLost, 0},
		{"a profile without disks", func(*Snapshot, *State) {}, func(cfg *Config) { *cfg = Seed() }, NobodyLost, 0},
		{"nobody else's disk is known", func(s *Snapshot, _ *State) {
			edit(s, idB, func(r *Row) { r.Fsync = 0 })
			edit(s, idC, func(r *Row) { r.Fsync = 0 })
		}, nil, NobodyLost, 0},
		{"all share one storage", func(s *Snapshot, _ *State) {
			edit(s, idB, func(r *Row) { r.Fsync = 256 * time.Millisecond })
			edit(s, idC, func(r *Row) { r.Fsync = 256 * time.Millisecond })
		}, nil, NobodyLost, 0},
		{"only b's disk is fast", func(s *Snapshot, _ *State) {
			edit(s, idC, func(r *Row) { r.Fsync = 256 * time.Millisecond })
		}, nil, "", idB},
		{"only b's disk is fast, and its link is young", func(s *Snapshot, _ *State) {
			edit(s, idC, func(r *Row) { r.Fsync = 256 * time.Millisecond })
			s.Own.Links[idB] = up(time.Second)
			edit(s, idB, func(r *Row) { r.Links[idA] = up(time.Second) })
		}, nil, NobodyLost, 0},
		{"c did not take over a moment ago, and b can", func(s *Snapshot, st *State) {
			st.failures = []failure{{idC, 1, s.Now + time.Second}}
		}, nil, "", idB},
		{"nobody took over a moment ago", func(s *Snapshot, st *State) {
			st.restUntil = s.Now + time.Second
		}, nil, BackingOff, idB},
		{"c does not see b", func(s *Snapshot, _ *State) {
			edit(s, idB, func(r *Row) { r.Links[idC] = down(time.Minute) })
			edit(s, idC, func(r *Row) { r.Links[idB] = down(time.Minute) })
		}, nil, NobodyLost, 0},
		{"b is gone", func(s *Snapshot, _ *State) {
			delete(s.Rows, idB)
			s.Own.Links[idB] = down(time.Minute)
			edit(s, idC, func(r *Row) { r.Links[idB] = down(time.Minute) })
		}, nil, NobodyLost, 0},
		{"c lacks entries", func(s *Snapshot, st *State) {
			s.Own.Index = 10000
			st.history = history{}.add(s.Now, 10000)
			edit(s, idC, func(r *Row) { r.Fsync, r.Index = 2*time.Millisecond, 100 })
			edit(s, idB, func(r *Row) { r.Index = 100 })
		}, nil, NobodyLost, 0},
		{"a move is not long ago", func(s *Snapshot, st *State) {
			st.penalty = sighting{Penalty{Seq: 1, Value: 1}, s.Now - time.Minute}
		}, nil, Damped, idB},
		{"the penalty has faded", func(s *Snapshot, st *State) {
			st.penalty = sighting{Penalty{Seq: 1, Value: 1}, s.Now - 2*time.Minute}
		}, nil, "", idB},
		{"somebody is lost, and nobody better placed", func(s *Snapshot, _ *State) {
			edit(s, idB, func(r *Row) { r.Leader = 0 })
		}, nil, LinkUncertain, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg, snap, st := Default(), slow(), seasoned()
			if tc.config != nil {
				tc.config(&cfg)
			}
			tc.change(&snap, &st)
			_, plan := Decide(cfg, st, snap)
			if plan.Refused != tc.want || plan.Target != tc.target || (plan.Move != nil) != (tc.want == "") {
				t.Errorf("got %+v, want refusal %q of %s", plan, tc.want, tc.target)
			}
		})
	}
}

// What was planned is looked at again: by then the disk may be well.
func TestConfirmRelief(t *testing.T) {
	cfg, snap := Default(), slow()
	st, plan := Decide(cfg, seasoned(), snap)
	if plan.Move == nil {
		t.Fatalf("no move: %+v", plan)
	}
	if want := "the disk of a takes 1.024s for an fsync, that of b 2ms"; plan.Move.Reason != want {
		t.Errorf("reason %q, want %q", plan.Move.Reason, want)
	}
	if refusal := Confirm(cfg, st, snap, *plan.Move); refusal != "" {
		t.Errorf("not confirmed: %s", refusal)
	}
	snap.SlowFor = 0
	if refusal := Confirm(cfg, st, snap, *plan.Move); refusal != NoBetter {
		t.Errorf("confirmed with %q though the disk is well again", refusal)
	}
}

func TestStreak(t *testing.T) {
	var s streak
	for _, step := range []struct {
		at   time.Duration
		yes  bool
		want time.Duration
	}{
		{0, true, 0}, {10, true, 10}, {20, true, 20}, {30, false, 0}, {40, true, 0}, {50, true, 10},
	} {
		if s = s.see(step.at, step.yes); s.length() != step.want {
			t.Errorf("at %d: %d, want %d", step.at, s.length(), step.want)
		}
	}
}

// A member is silent while its disk is slow, and is not taken for one that is gone,
// unless it stays silent for longer than its disk explains.
func TestPatience(t *testing.T) {
	now := time.Hour
	o := &observer{clock: func() time.Duration { return now }}
	o.row = o.update(Row{}, etcd.Status{Cluster: 1, Member: 7, Leader: 7}, nil)
	if now += 10 * time.Millisecond; o.patient() {
		t.Error("patient with a disk that is not slow")
	}
	o.slowDisk(time.Second)
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{{2400 * time.Millisecond, true}, {200 * time.Millisecond, false}} {
		if now += step.after; o.patient() != step.want {
			t.Errorf("%s after the last answer: patient is %v", now-time.Hour, !step.want)
		}
	}
	if o.slowDisk(time.Minute); o.statusPatience() != mostPatience {
		t.Errorf("patience of %s, want at most %s", o.statusPatience(), mostPatience)
	}
	if o.slowDisk(0); o.statusPatience() != statusTimeout {
		t.Errorf("patience of %s with a disk that is well", o.statusPatience())
	}
}

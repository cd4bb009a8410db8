package leader

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite what stands in testdata")

// TestExplain holds what a person reads in a file, one case after the other.
func TestExplain(t *testing.T) {
	cases := []struct {
		name   string
		change func(*Snapshot, *State)
	}{
		{"moving", func(*Snapshot, *State) {}},
		{"settling", func(s *Snapshot, _ *State) { s.Own.Links[idB] = down(1200 * time.Millisecond) }},
		{"damped", func(s *Snapshot, _ *State) { s.Penalty = Penalty{Seq: 1, Value: 1} }},
		{"record unread", func(s *Snapshot, _ *State) { s.PenaltyKnown = false }},
		{"all well", func(s *Snapshot, _ *State) { _, _, *s = home() }},
		{"silent members", func(s *Snapshot, _ *State) {
			delete(s.Rows, idB)
			edit(s, idC, func(r *Row) { r.Age = 12 * time.Second })
		}},
		{"member restarts", func(s *Snapshot, _ *State) { edit(s, idB, func(r *Row) { r.Reachable = false }) }},
		{"alarm", func(s *Snapshot, _ *State) { edit(s, idC, func(r *Row) { r.Alarms = []string{"NOSPACE"} }) }},
		{"lossy", func(s *Snapshot, _ *State) {
			s.Own.Links[idB] = Link{State: Up, Since: time.Hour, Loss: 0.33}
			edit(s, idB, func(r *Row) { r.Links[idA] = Link{State: Up, Since: time.Hour, Loss: 0.4} })
		}},
		{"members changed", func(s *Snapshot, _ *State) { s.VotersChanged = 3 * time.Second }},
		{"a follower", func(s *Snapshot, _ *State) { s.Own.Leader = idC }},
		{"no leader here", func(s *Snapshot, _ *State) { s.Own.Leader, s.Own.LeaderlessFor = 0, 90*time.Second }},
		{"own member silent", func(s *Snapshot, _ *State) { s.Own.Reachable = false }},
	}
	var got strings.Builder
	for _, c := range cases {
		snap, st := split(), seasoned()
		c.change(&snap, &st)
		st, plan := Decide(Default(), st, snap)
		got.WriteString("# " + c.name + "\n" + strings.Join(Explain(Default(), st, snap, plan), "\n") + "\n\n")
	}
	const path = "testdata/explain.txt"
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got.String() != string(want) {
		t.Errorf("the words changed (%v); run with -update and look at the difference:\n%s", err, got.String())
	}
}

func TestWarnings(t *testing.T) {
	for version, want := range map[string]string{
		"3.5.34": "", "3.6.9": "", "3.7.1": "", "": "", "nonsense": "", "4.0.0": "",
		"3.5.27": "upgrade to 3.5.28", "3.6.8": "upgrade to 3.6.9", "3.4.30": "not supported",
	} {
		snap := split()
		edit(&snap, idC, func(r *Row) { r.Version = version })
		got := strings.Join(Warnings(Default(), snap), "\n")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("version %q: %q, want %q in it", version, got, want)
		}
	}
	snap := split()
	snap.Own.Fsync = 2 * time.Second
	if got := Warnings(Default(), snap); len(got) != 1 || !strings.Contains(got[0], "disk") {
		t.Errorf("a leader with a stalled disk: %q", got)
	}
}

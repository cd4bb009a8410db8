package leader

import (
	"testing"
	"time"
)

func TestRegistryOrdersCopiesOfARow(t *testing.T) {
	row := func(boot string, seq uint64, age time.Duration) Row {
		return Row{Member: 1, Boot: boot, Seq: seq, Age: age}
	}
	steps := []struct {
		name string
		row  Row
		at   time.Duration
		news bool
		age  time.Duration // of the row kept, at the time of the step
	}{
		{"first", row("x", 5, 0), 0, true, 0},
		{"same copy by a slower route", row("x", 5, time.Second), time.Second, false, time.Second},
		{"older copy", row("x", 4, 0), time.Second, false, time.Second},
		{"newer", row("x", 6, 100*time.Millisecond), 2 * time.Second, true, 100 * time.Millisecond},
		{"restart of the agent", row("y", 1, 0), 3 * time.Second, true, 0},
		{"late copy of the run before", row("x", 9, 5*time.Second), 4 * time.Second, false, time.Second},
		{"found at start, age unknown", row("z", 1, maxAge), 5 * time.Second, false, 2 * time.Second},
	}
	g := newRegistry()
	for _, s := range steps {
		if news := g.hear(s.row, s.at); news != s.news {
			t.Errorf("%s: news %v", s.name, news)
		}
		if age := g.at(s.at)[1].Age; age != s.age {
			t.Errorf("%s: age %v, want %v", s.name, age, s.age)
		}
	}
}

func TestRegistryAgesWhatARowTells(t *testing.T) {
	g := newRegistry()
	g.hear(Row{Member: 1, Boot: "x", LeaderlessFor: time.Second, Links: map[MemberID]Link{2: {State: Down, Since: time.Second}}}, 0)
	r := g.at(3 * time.Second)[1]
	if r.LeaderlessFor != 4*time.Second || r.Links[2].Since != 4*time.Second {
		t.Errorf("leaderless %v, link %v", r.LeaderlessFor, r.Links[2])
	}
	if again := g.at(0)[1]; again.Links[2].Since != time.Second {
		t.Error("reading a row changed it")
	}
}

func TestRegistryKeepsTheHeaviestRecord(t *testing.T) {
	g := newRegistry()
	g.heardPenalty(Penalty{Seq: 2, Value: 1})
	g.hear(Row{Member: 1, Boot: "x", Seq: 1, Penalty: Penalty{Seq: 3, Value: 1.4}}, 0)
	g.heardPenalty(Penalty{Seq: 1, Value: 9})
	if p := g.newest(); p.Seq != 3 || p.Value != 1.4 {
		t.Errorf("newest %+v", p)
	}
	// A row too old to be told again still brings its record.
	g.hear(Row{Member: 1, Boot: "x", Seq: 1, Penalty: Penalty{Seq: 4, Value: 1}}, 0)
	if p := g.newest(); p.Seq != 4 {
		t.Errorf("newest %+v", p)
	}
}

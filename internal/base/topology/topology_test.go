package topology

import (
	"testing"
	"time"
)

func link(s State, since int) Link { return Link{State: s, Since: time.Duration(since) * time.Second} }

func TestJoin(t *testing.T) {
	tests := []struct {
		name string
		a, b Link
		want Link
	}{
		{"nobody knows", link(Unknown, 0), link(Unknown, 0), link(Unknown, 0)},
		{"one end up", link(Up, 5), link(Unknown, 0), link(Up, 5)},
		{"one end down", link(Down, 5), link(Unknown, 0), link(Down, 5)},
		{"both up: either route will do", link(Up, 5), link(Up, 9), link(Up, 9)},
		{"both down: certain when the later knew", link(Down, 5), link(Down, 9), link(Down, 5)},
		{"up wins, and is as young as the contradiction", link(Up, 90), link(Down, 2), link(Up, 2)},
		{"an up younger than the contradiction", link(Up, 1), link(Down, 60), link(Up, 1)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Join(test.a, test.b); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			if got := Join(test.b, test.a); got != test.want {
				t.Errorf("the other way around: got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestJoinKeepsTheBetterFigures(t *testing.T) {
	a := Link{State: Up, RTT: 0, Loss: 0.3}
	b := Link{State: Up, RTT: 7 * time.Millisecond, Loss: 0.1}
	if got := Join(a, b); got.RTT != b.RTT || got.Loss != b.Loss {
		t.Errorf("got RTT %s and loss %v, want those of the end that knows and loses less", got.RTT, got.Loss)
	}
}

func TestCounts(t *testing.T) {
	m := NewMatrix(4)
	m.Set(0, 1, link(Up, 10))
	m.Set(0, 2, link(Down, 1))
	// 0-3 stays unknown.
	tests := []struct {
		held              time.Duration
		certain, possible int
	}{
		{0, 2, 3},
		{2 * time.Second, 2, 4}, // down for 1 s only: it may still count
		{time.Minute, 1, 4},
	}
	for _, test := range tests {
		if c, p := m.Certain(0, test.held), m.Possible(0, test.held); c != test.certain || p != test.possible {
			t.Errorf("held %s: certain %d, possible %d; want %d and %d", test.held, c, p, test.certain, test.possible)
		}
	}
}

func TestQuorumRTT(t *testing.T) {
	m := NewMatrix(5)
	for j, ms := range []int{0, 40, 10, 30, 20} {
		if j > 0 {
			m.Set(0, j, Link{State: Up, RTT: time.Duration(ms) * time.Millisecond})
		}
	}
	if got := m.QuorumRTT(0); got != 20*time.Millisecond {
		t.Errorf("with two acknowledgements needed, got %s, want the second nearest, 20ms", got)
	}
	m.Set(0, 2, Link{State: Down, RTT: 10 * time.Millisecond})
	if got := m.QuorumRTT(0); got != 30*time.Millisecond {
		t.Errorf("a link that is down counted: %s", got)
	}
	if got := m.QuorumRTT(1); got != 0 {
		t.Errorf("one known round trip makes no quorum of five, got %s", got)
	}
}

func TestZones(t *testing.T) {
	z := Zones{"a", "b"}
	for zone, want := range map[string]int{"a": 0, "b": 1, "elsewhere": 2, "": 2} {
		if got := z.Rank(zone); got != want {
			t.Errorf("Rank(%q) = %d, want %d", zone, got, want)
		}
	}
}

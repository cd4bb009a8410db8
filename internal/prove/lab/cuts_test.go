package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCuts applies every kind of cut to a real lab. Cut and Heal verify the
// whole matrix themselves; the test adds what the matrix must say about a–b.
func TestCuts(t *testing.T) {
	t.Parallel()
	spec := mustDefault(t, "lan")
	spec.Etcd = nil
	spec.Sites[0].Nodes = 2
	l := startLab(t, spec)
	ctx := deadline(t, time.Minute)
	open := func(kinds ...Kind) []Kind { return kinds }
	for _, tt := range []struct {
		cut         Cut
		from, to    string
		forth, back []Kind // what is open from→to and to→from
	}{
		{cut: Cut{From: "a", To: "b"}, forth: open(), back: open()},
		{cut: Cut{From: "a", To: "b", OneWay: true}, forth: open(), back: open(KindFlow, KindUDP, KindUDP6, KindVXLAN)},
		{cut: Cut{From: "a", To: "b", State: StateNew}, forth: open(KindFlow, KindKept), back: open(KindFlow, KindKept)},
		{cut: Cut{From: "a", To: "b", State: StateNew, OneWay: true}, forth: open(KindFlow, KindKept),
			back: open(KindFlow, KindKept, KindNew, KindUDP, KindUDP6, KindVXLAN)},
		{cut: Cut{From: "a", To: "b", State: StateEstablished}, forth: open(KindNew, KindUDP, KindUDP6, KindVXLAN),
			back: open(KindNew, KindUDP, KindUDP6, KindVXLAN)},
		{cut: Cut{From: "a", To: "b", State: StateEstablished, OneWay: true}, forth: open(KindNew, KindUDP, KindUDP6, KindVXLAN),
			back: open(KindFlow, KindNew, KindUDP, KindUDP6, KindVXLAN)},
		{cut: Cut{From: "a", To: "b", Proto: ProtoTCP, Action: ActionReset}, forth: open(KindFlow, KindUDP, KindUDP6, KindVXLAN),
			back: open(KindFlow, KindUDP, KindUDP6, KindVXLAN)},
		{cut: Cut{From: "a", To: "b", Proto: ProtoUDP, Action: ActionICMP}, forth: open(KindKept, KindNew), back: open(KindKept, KindNew)},
		{cut: Cut{From: "a", To: "b", Proto: ProtoVXLAN}, forth: open(KindFlow, KindKept, KindNew, KindUDP, KindUDP6),
			back: open(KindFlow, KindKept, KindNew, KindUDP, KindUDP6)},
		{cut: Cut{From: "a", To: "b", Ports: []uint16{2380, 8080}}, forth: open(KindFlow, KindKept, KindNew, KindUDP, KindUDP6, KindVXLAN),
			back: open(KindFlow, KindKept, KindNew, KindUDP, KindUDP6, KindVXLAN)},
		// One port alone, and one way: Cut itself checks that the answers, whose
		// source is the port, are taken too.
		{cut: Cut{From: "a", To: "b", Ports: []uint16{2380}, OneWay: true, Action: ActionReset},
			forth: open(KindFlow, KindKept, KindNew, KindUDP, KindUDP6, KindVXLAN),
			back:  open(KindFlow, KindKept, KindNew, KindUDP, KindUDP6, KindVXLAN)},
		{cut: Cut{From: "a", To: "b", Via: "c"}, forth: open(KindDial, KindFlow, KindPing, KindUDP, KindUDP6, KindVXLAN),
			back: open(KindFlow, KindUDP, KindUDP6, KindVXLAN)},
		{cut: Cut{From: "b"}, forth: open(), back: open()},
		{cut: Cut{From: "a1"}, forth: open(), back: open()},
		{cut: Cut{From: "a1", To: "a2"}, from: "a1", to: "a2", forth: open(), back: open()},
		{cut: Cut{From: "a2", To: "b"}, from: "a2", to: "b1", forth: open(), back: open()},
		{cut: Cut{From: "a1", To: "b1", OneWay: true, Action: ActionICMP}, forth: open(), back: open(KindFlow, KindUDP, KindUDP6, KindVXLAN)},
	} {
		t.Run(strings.ReplaceAll(tt.cut.String(), " ", "_"), func(t *testing.T) {
			if tt.from == "" {
				tt.from, tt.to = "a1", "b1"
			}
			t.Cleanup(func() {
				if t.Failed() {
					_ = l.Heal(ctx) // the next one begins without
				}
			})
			if err := l.Cut(ctx, tt.cut); err != nil {
				t.Fatalf("%v\n%s", err, l.Journal()[len(l.Journal())-1])
			}
			measured(ctx, t, l, []direction{{tt.from, tt.to, tt.forth}, {tt.to, tt.from, tt.back}})
			if err := l.Heal(ctx, tt.cut.String()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// direction is what must be open from one node to another.
type direction struct {
	from, to string
	want     []Kind
}

// measured looks at the matrix of a cut that is verified to be in force. What is
// open and must not be fails the test at once: no load opens a path. What does not
// answer and should is looked at again, for a busy machine answers late.
func measured(ctx context.Context, t *testing.T, l *Lab, all []direction) {
	t.Helper()
	const looks = 5
	for look := 1; ; look++ {
		m, err := l.Matrix(ctx)
		if err != nil {
			t.Fatal(err)
		}
		late := ""
		for _, d := range all {
			c, _ := m.Cell(d.from, d.to)
			for _, k := range sortedKinds(c.Open) {
				switch wanted := slices.Contains(d.want, k); {
				case c.Open[k] && !wanted:
					t.Errorf("%s to %s: %s is open, and only %v may be", d.from, d.to, k, d.want)
				case !c.Open[k] && wanted:
					late += fmt.Sprintf("%s to %s by %s; ", d.from, d.to, k)
				}
			}
		}
		if t.Failed() || late == "" {
			return
		}
		if look == looks {
			t.Errorf("no answer in any of %d looks, the last time: %s", looks, late)
			return
		}
	}
}

// TestNotInForce takes the rules away behind the lab's back.
func TestNotInForce(t *testing.T) {
	t.Parallel()
	spec := mustDefault(t, "lan")
	spec.Etcd = nil
	l := startLab(t, spec)
	ctx := deadline(t, time.Minute)
	if err := l.Cut(ctx, Cut{From: "a", To: "b"}); err != nil {
		t.Fatal(err)
	}
	if err := l.routers["a"].load("flush ruleset\n"); err != nil {
		t.Fatal(err)
	}
	err := l.verify(ctx)
	if !errors.Is(err, ErrNotInForce) || !strings.Contains(err.Error(), "a1 to b1 by flow is open, declared blocked") {
		t.Fatalf("got %v", err)
	}
}

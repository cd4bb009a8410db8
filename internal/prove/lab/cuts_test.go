package lab

import (
	"errors"
	"fmt"
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
	open := func(kinds ...Kind) string { return fmt.Sprint(kinds) }
	for _, tt := range []struct {
		cut         Cut
		from, to    string
		forth, back string // what is open from→to and to→from
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
			if err := l.Cut(ctx, tt.cut); err != nil {
				t.Fatalf("%v\n%s", err, l.Journal()[len(l.Journal())-1])
			}
			// A busy machine answers some probe late, and the whole is measured
			// anew; what a rule takes, it takes each time.
			const looks = 5
			var wrong string
			for range looks {
				m, err := l.Matrix(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if wrong = differs(m, tt.from, tt.to, tt.forth) + differs(m, tt.to, tt.from, tt.back); wrong == "" {
					break
				}
			}
			if wrong != "" {
				t.Error(wrong)
			}
			if err := l.Heal(ctx, tt.cut.String()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// differs says what is open from one node to another where that is not want.
func differs(m Matrix, from, to, want string) string {
	c, _ := m.Cell(from, to)
	var got []Kind
	for _, k := range sortedKinds(c.Open) {
		if c.Open[k] {
			got = append(got, k)
		}
	}
	if fmt.Sprint(got) == want {
		return ""
	}
	return fmt.Sprintf("%s to %s: open are %v, want %s; ", from, to, got, want)
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

package pair

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
)

func pairedRecord() arbiter.Record {
	return arbiter.Record{
		Version: arbiter.RecordVersion, Cluster: 0xc, Members: [2]arbiter.Member{{Name: "a", ID: 1}, {Name: "b", ID: 2}},
		Generation: 4, State: arbiter.Paired, Nonce: strings.Repeat("0", 32), Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

func soloRecord(survivor string, held bool) arbiter.Record {
	r := pairedRecord()
	r.State, r.Survivor, r.Held = arbiter.Solo, survivor, held
	return r
}

func TestClaimed(t *testing.T) {
	for _, c := range []struct {
		name   string
		was    arbiter.Record
		self   string
		accept bool
		fails  string // part of the error
		forced bool
	}{
		{name: "paired", was: pairedRecord(), self: "a"},
		{name: "own emergency becomes held", was: soloRecord("a", false), self: "a"},
		{name: "claimed already", was: soloRecord("a", true), self: "a", fails: "claimed already"},
		{name: "not a member", was: pairedRecord(), self: "z", fails: "--name"},
		{name: "the other serves", was: soloRecord("b", false), self: "a", fails: "b serves alone since 2026-01-02T03:04:05Z (generation 4)"},
		{name: "the other is lost for good", was: soloRecord("b", false), self: "a", accept: true, forced: true},
		{name: "accepting is no claim of more than is lost", was: pairedRecord(), self: "a", accept: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			next, meaning, err := claimed(c.was, c.self, c.accept)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("error %v, want one with %q", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := next.Validate(); err != nil {
				t.Fatal(err)
			}
			if !next.SoloOf(c.self) || !next.Held || next.Forced != c.forced || meaning == "" {
				t.Fatalf("next %+v, %q", next, meaning)
			}
		})
	}
}

func TestReleased(t *testing.T) {
	if _, _, err := released(pairedRecord()); err == nil {
		t.Error("released what nobody claimed")
	}
	if _, _, err := released(soloRecord("b", false)); err == nil {
		t.Error("released what no person claimed")
	}
	was := soloRecord("b", true)
	was.Forced = true
	next, _, err := released(was)
	if err != nil {
		t.Fatal(err)
	}
	if next.Held || next.Forced || !next.SoloOf("b") {
		t.Errorf("next %+v", next)
	}
}

package judge

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// holding has a machine answer for the address from one second to another; to 0 is
// the end of the run.
func holding(rec *record.Record, node string, from, to float64) {
	add := func(kind string, seconds float64) {
		rec.Events = append(rec.Events, record.Event{At: at(seconds), Source: "wire", Kind: kind, Keys: map[string]string{"node": node}})
	}
	add(record.KindAnswering, from)
	if to != 0 {
		add(record.KindCeased, to)
	}
	rec.Sort()
}

// onInterface notes when the address came to a machine or went.
func onInterface(rec *record.Record, node, kind string, seconds float64) {
	rec.Events = append(rec.Events, record.Event{At: at(seconds), Source: "observer", Kind: kind, Keys: map[string]string{"node": node}})
	rec.Sort()
}

func believes(rec *record.Record, who, node, stale string, seconds float64) {
	rec.Events = append(rec.Events, record.Event{
		At: at(seconds), Kind: record.KindNeighbour, Message: who + " sends packets for the address to " + node,
		Keys: map[string]string{"who": who, "node": node, "stale": stale},
	})
	rec.Sort()
}

// killed is a record of vip-agent-killed in which the address is away for a time
// and a3 answers then.
func killed(t *testing.T, agents bool, away float64) *record.Record {
	t.Helper()
	c := load(t, "vip-agent-killed", "main")
	w := world(always)
	if away > 0 {
		w = w.broken(timeout, 0.04, 0.04+away, "a/address", "b/address")
	}
	rec := film(c, agents, w)
	rec.Run.Faults[0] = record.Fault{Name: "killed", Kind: "kill", From: t0, To: rec.Run.Healed, Verified: true}
	rec.Run.Controls = nil
	onInterface(rec, "a2", record.KindAddressOn, -4)
	return rec
}

func TestAddressOfAKilledAgent(t *testing.T) {
	for _, tc := range []struct {
		name    string
		change  func(*record.Record)
		want    string
		verdict report.Verdict
	}{
		{"as it should be", func(r *record.Record) {
			holding(r, "a2", -4, 0.2)
			holding(r, "a3", 0.3, 0)
			onInterface(r, "a2", record.KindAddressOff, 2.1)
			believes(r, "a1", "a3", "false", 9)
		}, "", report.Pass},
		{"it flaps", func(r *record.Record) {
			holding(r, "a2", -4, 0.2)
			holding(r, "a3", 0.3, 1)
			holding(r, "a4", 1.1, 0)
			onInterface(r, "a2", record.KindAddressOff, 2.1)
		}, "the address made 2 moves, at most 1 allowed; the first from a2 to a3 at 300 ms", report.Fail},
		{"it goes back", func(r *record.Record) {
			holding(r, "a2", -4, 0.2)
			holding(r, "a3", 0.3, 11)
			holding(r, "a2", 11.1, 0)
			onInterface(r, "a2", record.KindAddressOff, 2.1)
		}, "the address made 2 moves", report.Fail},
		{"nobody takes it", func(r *record.Record) { holding(r, "a2", -4, 0); onInterface(r, "a2", record.KindAddressOff, 2) }, "the address made 0 moves, at least 1 expected", report.Fail},
		{"two hold it", func(r *record.Record) {
			holding(r, "a2", -4, 0.6)
			holding(r, "a3", 0.3, 0)
			onInterface(r, "a2", record.KindAddressOff, 2.1)
		}, "a2 and a3 both answered for the address for 300 ms, at most 130 ms allowed", report.Fail},
		{"it stays on the machine", func(r *record.Record) { holding(r, "a2", -4, 0.2); holding(r, "a3", 0.3, 0) }, "the address stayed on a2, whose agent was struck; allowed 2.5 s", report.Fail},
		{"it goes late", func(r *record.Record) {
			holding(r, "a2", -4, 0.2)
			holding(r, "a3", 0.3, 0)
			onInterface(r, "a2", record.KindAddressOff, 3.1)
		}, "the address was on a2 for 3.1 s after its agent was struck, allowed 2.5 s", report.Fail},
		{"a client believes the dead one", func(r *record.Record) {
			holding(r, "a2", -4, 0.2)
			holding(r, "a3", 0.3, 0)
			onInterface(r, "a2", record.KindAddressOff, 2.1)
			believes(r, "a1", "a2", "true", 9)
		}, "stale neighbour entry: at 9.0 s a1 sends packets for the address to a2", report.Fail},
	} {
		rec := killed(t, true, 0)
		tc.change(rec)
		r := Run(rec)
		if r.Verdict != tc.verdict || tc.want != "" && !strings.Contains(strings.Join(r.Reasons, "\n"), tc.want) {
			t.Errorf("%s: %s, %q; want %s and %q", tc.name, r.Verdict, r.Reasons, tc.verdict, tc.want)
		}
		// Without the agents nothing of this is asked of keepalived.
		rec.Run.Agents = false
		if r := Run(rec); r.Verdict != report.Pass {
			t.Errorf("%s, without the agents: %s, %q", tc.name, r.Verdict, r.Reasons)
		}
	}
}

// The window of an address counts from the first request that was lost, for the
// kernel lets the dead holder answer a while.
func TestAddressIsAwayFromTheFirstLoss(t *testing.T) {
	for _, tc := range []struct {
		agents   bool
		from, to float64
		verdict  report.Verdict
	}{
		{true, 3, 3.3, report.Pass},
		{true, 3, 5, report.Fail},
		{false, 3, 6, report.Pass},
		{false, 3, 7, report.Fail},
		{false, 3, 4, report.Inconclusive}, // sooner than keepalived can
		{false, 0, 0, report.Inconclusive},
	} {
		c := load(t, "vip-node-silent", "second")
		w := world(always)
		if tc.to > 0 {
			w = w.broken(refused, tc.from, tc.to, c.Paths[0].Name)
		}
		rec := film(c, tc.agents, w)
		j := &run{rec: rec, paths: probe.ByPath(rec.Samples)}
		if got := j.judgePath(rec.Case.Paths[0]); got.Verdict != tc.verdict {
			t.Errorf("with agents %t, away from %g to %g: %s, %s; want %s", tc.agents, tc.from, tc.to, got.Verdict, got.Reason, tc.verdict)
		}
	}
}

func TestAddressNumbers(t *testing.T) {
	rec := killed(t, true, 0.5)
	holding(rec, "a2", -4, 0.45)
	holding(rec, "a3", 0.4, 0)
	onInterface(rec, "a2", record.KindAddressOff, 2.2)
	believes(rec, "router a", "a2", "true", 9)
	r := Run(rec)
	got := addressNumbers(rec, r.Paths)
	for name, want := range map[string]float64{
		"moves": 1, "two_holders_ms": 50, "stale_neighbours": 1, "client_resets": 2, "gone": 1, "gone_ms": 2200, "datagram_outage_ms": 400,
	} {
		if got[name] != want {
			t.Errorf("%s is %g, want %g", name, got[name], want)
		}
	}
	plain := film(load(t, "partial-split", "main"), true, always)
	if got := addressNumbers(plain, nil); got != nil {
		t.Errorf("a case without an address has %v", got)
	}
	if _, node, left, had := (&run{rec: rec}).goneAfter(); node != "a2" || !left || !had {
		t.Errorf("gone from %s: %t, %t", node, left, had)
	}
}

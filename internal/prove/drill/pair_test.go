package drill

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Two agents learn of a change at different times; the record never goes back.
func TestRecordsAsAgentsTellThem(t *testing.T) {
	var r records
	for i, step := range []struct {
		now  pairRecord
		want string
	}{
		{pairRecord{statePaired, "", 1}, "paired  1"},
		{pairRecord{statePaired, "", 1}, ""},
		{pairRecord{"solo", "b1", 2}, "solo b 2"},
		{pairRecord{statePaired, "", 1}, ""}, // the agent behind the cut
		{pairRecord{"solo", "b1", 3}, "solo b 3"},
		{pairRecord{statePaired, "", 5}, "paired  5"},
		{pairRecord{}, ""},
	} {
		ev, news := r.see(step.now)
		got := ""
		if news {
			got = fmt.Sprintf("%s %s %s", ev.Keys["state"], ev.Keys["survivor"], ev.Keys["generation"])
		}
		if got != step.want || news && ev.Kind != record.KindPairRecord {
			t.Errorf("step %d: %q (%s), want %q", i, got, ev.Kind, step.want)
		}
	}
}

// What an agent decides is an event; what it says besides is not.
func TestDecisionsAreEvents(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := scenario.SiteAgent(scenario.AgentPair, "b")
	ev, ok := parseAgentLine(p, []byte(`{"time":"2026-03-01T12:00:00.1Z","level":"WARN","msg":"no quorum for 4.7s","do":"claim","record":"paired, generation 1"}`), now)
	if !ok || ev.Kind != record.KindDecided || ev.Source != "pair/b" || ev.Message != "no quorum for 4.7s" || ev.Keys["do"] != "claim" {
		t.Errorf("%+v, %v", ev, ok)
	}
	if ev, ok := parseAgentLine(p, []byte(`{"level":"INFO","msg":"etcd is started","pid":7}`), now); ok {
		t.Errorf("%+v is an event", ev)
	}
	if ev, ok := parseAgentLine(scenario.Balancer("b"), []byte(`{"level":"INFO","msg":"x","do":"y"}`), now); ok {
		t.Errorf("%+v is an event of a balancer", ev)
	}
}

// Every drill of a pair names a lab in which the arbiter has an etcd of its own.
func TestLabOfAPair(t *testing.T) {
	spec, err := labSpec(mustCase(t, "pair-site-loss", "main"), true, "", "/run/x")
	if err != nil {
		t.Fatal(err)
	}
	if len(spec.Etcd) != 2 || spec.Etcd[1].Name != arbiterCluster || fmt.Sprint(spec.Etcd[0].Sites, spec.Etcd[1].Sites) != "[a b] [c]" || spec.Peer != pairPeer {
		t.Errorf("clusters %+v, etcd %s", spec.Etcd, spec.Peer)
	}
}

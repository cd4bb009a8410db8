package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// of makes an endpoint from a few letters: "b1 b ready a,b", "b1 b - b".
func of(text string) record.Endpoint {
	f := strings.Fields(text + " - -")
	e := record.Endpoint{Slice: "kubernetes-" + f[0], Address: f[0], Site: f[0][:1], Zone: strings.Trim(f[1], "-"), Ready: f[2] == "ready"}
	if f[3] != "-" {
		e.Hints = strings.Split(f[3], ",")
	}
	return e
}

// saw adds what kube-proxy was told at a time.
func saw(seconds float64, endpoints ...string) func(*record.Record) {
	return func(r *record.Record) {
		var list []record.Endpoint
		for _, text := range endpoints {
			list = append(list, of(text))
		}
		r.Events = append(r.Events, record.Event{At: at(seconds), Source: "observer", Kind: record.KindEndpoints, Message: "endpoints", Keys: record.EndpointKeys(list)})
		r.Sort()
	}
}

// node adds that a Node ceased to be Ready.
func node(seconds float64, name string) func(*record.Record) {
	return func(r *record.Record) {
		r.Events = append(r.Events, record.Event{
			At: at(seconds), Source: "observer", Kind: record.KindNodeNotReady, Message: "not ready",
			Keys: map[string]string{"node": name, "reason": "NodeStatusUnknown"},
		})
		r.Sort()
	}
}

// gone and other stand for a scene in which c adopts b.
const (
	a, b, c          = "a1 a ready a", "b1 b ready b", "c1 c ready c"
	bOut, cAdoptsB   = "b1 b - b", "c1 c ready b,c"
	orphan           = "orphan-zone"
	allWell, adopted = -9, 3
)

// scene is a drill of b's apiserver in which its endpoint is out and adopted at
// the given times.
func scene(out, adoption float64) []func(*record.Record) {
	return []func(*record.Record){saw(allWell, a, b, c), saw(out, a, bOut, c), saw(adoption, a, bOut, cAdoptsB), saw(62, a, b, cAdoptsB), saw(63, a, b, c)}
}

func TestEndpointsAreHeldToWhatTheyMust(t *testing.T) {
	for _, tc := range []struct {
		name, scenario string
		without        bool
		world          world
		spoil          []func(*record.Record)
		verdict        report.Verdict
		reason         string
	}{
		{name: "adopted in time", scenario: orphan, world: world(always).broken(refused, 0, 5, "b/service"), spoil: scene(2, adopted), verdict: report.Pass},
		{name: "adopted before it was out", scenario: orphan, world: world(always).broken(refused, 0, 5, "b/service"), verdict: report.Pass,
			spoil: []func(*record.Record){saw(allWell, a, b, c), saw(2, a, b, cAdoptsB), saw(2.1, a, bOut, cAdoptsB)}},
		{name: "out too late", scenario: orphan, world: always, spoil: scene(4.2, 5), verdict: report.Fail, reason: "endpoints: that of b was out after 4.2 s, allowed 4.0 s"},
		{name: "never out", scenario: orphan, world: always, spoil: []func(*record.Record){saw(allWell, a, b, c)}, verdict: report.Fail, reason: "endpoints: that of b stayed though its apiserver could not serve"},
		{name: "adopted too late", scenario: orphan, world: always, spoil: scene(2, 5.5), verdict: report.Fail, reason: "endpoints: zone b had none that is ready for 3.5 s from 2.0 s on, allowed 3.0 s"},
		{name: "two adopters", scenario: orphan, world: always, verdict: report.Fail, reason: "endpoints: zone b had two adopters for 3.0 s from 10.0 s on",
			spoil: append(scene(2, 3), saw(10, "a1 a ready a,b", bOut, cAdoptsB), saw(13, a, bOut, cAdoptsB))},
		{name: "two adopters in passing", scenario: orphan, world: always, verdict: report.Pass,
			spoil: append(scene(2, 3), saw(10, "a1 a ready a,b", bOut, cAdoptsB), saw(11.9, a, bOut, cAdoptsB))},
		{name: "none ready", scenario: orphan, world: always, verdict: report.Fail, reason: "endpoints: none was ready for 100 ms from 20.0 s on, allowed 0 ms",
			spoil: append(scene(2, 3), saw(20, "a1 a - a", bOut, "c1 c - c"), saw(20.1, a, bOut, cAdoptsB))},
		{name: "none at all", scenario: orphan, world: always, verdict: report.Fail, reason: "endpoints: none was ready", spoil: append(scene(2, 3), saw(20), saw(20.1, a, bOut, cAdoptsB))},
		{name: "no zone", scenario: orphan, world: always, verdict: report.Fail, reason: "endpoints: one had no zone or no hint for 500 ms from 20.0 s on",
			spoil: append(scene(2, 3), saw(20, a, "b1 - - b", cAdoptsB), saw(20.5, a, bOut, cAdoptsB))},
		{name: "without them nothing is held to anything", scenario: orphan, without: true, world: always, spoil: []func(*record.Record){saw(allWell), node(50, "b1")}, verdict: report.Pass},
		{name: "unseen", scenario: orphan, world: always, verdict: report.Inconclusive, reason: "the endpoints of default/kubernetes were not seen before the baseline"},
		{name: "unread", scenario: orphan, world: always, verdict: report.Inconclusive, reason: "has 1 fields, want 4",
			spoil: append(scene(2, 3), func(r *record.Record) { r.Events[0].Keys = map[string]string{"endpoint:x/y": "z"} })},
		{name: "a node not ready", scenario: orphan, world: always, verdict: report.Fail, reason: "node b1 was not Ready at 50.0 s: NodeStatusUnknown", spoil: append(scene(2, 3), node(50, "b1"))},
		{name: "a change too many", scenario: "slices-agent-killed", world: always, verdict: report.Fail, reason: "endpoints: 1 change while the faults were in force, at most 0 allowed",
			spoil: []func(*record.Record){saw(allWell, a, b, c), saw(40, a, bOut, cAdoptsB)}},
		{name: "no change", scenario: "slices-agent-killed", world: always, verdict: report.Pass, spoil: []func(*record.Record){saw(allWell, a, b, c)}},
		{name: "slow answers are no loss", scenario: orphan, spoil: scene(2, 3), verdict: report.Pass,
			world: world(always).broken(refused, 0, 5, "b/service").broken(answer{1900 * time.Millisecond, ""}, 30, 31, "b/service", "a/service")},
		{name: "slow answers right after a loss belong to it", scenario: orphan, spoil: scene(2, 3), verdict: report.Fail, reason: "b/service/api-get/new: answered for good after 9.1 s, allowed 8.7 s",
			world: world(always).broken(refused, 0, 5, "b/service").broken(answer{1900 * time.Millisecond, ""}, 5, 9, "b/service")},
		{name: "lost after the heal", scenario: orphan, world: world(always).broken(refused, 61, 61.3, "b/service/api-get/new"), spoil: scene(2, 3), verdict: report.Fail,
			reason: "b/service/api-get/new: 2 of 20 requests failed after the heal, at most 0 allowed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec := film(load(t, tc.scenario, "main"), !tc.without, tc.world)
			rec.Run.Faults[0].Name = rec.Case.Faults[0].Name
			for _, f := range tc.spoil {
				f(rec)
			}
			got := Run(rec)
			if got.Verdict != tc.verdict || !strings.Contains(strings.Join(got.Reasons, "\n"), tc.reason) {
				t.Errorf("verdict %s, reasons %q; want %s, %q", got.Verdict, got.Reasons, tc.verdict, tc.reason)
			}
		})
	}
}

// second loses every second request.
func second(path string, at float64) answer {
	if at >= 0 && at < 30 && int(at*5)%2 == 0 && strings.Contains(path, "gateway") {
		return timeout
	}
	return good
}

func TestHalfIsLost(t *testing.T) {
	for _, tc := range []struct {
		name    string
		world   world
		verdict report.Verdict
		reason  string
	}{
		{"half", second, report.Pass, ""},
		{"nothing", always, report.Inconclusive, "a/gateway/web/new: lost 0 of 150 requests, not about half; the fault was not felt as described"},
		{"everything", world(always).broken(timeout, 0, 30, "a/gateway"), report.Inconclusive, "lost 150 of 150 requests"},
	} {
		got := Run(film(load(t, "zonal-gateway", "main"), false, tc.world))
		if got.Verdict != tc.verdict || !strings.Contains(strings.Join(got.Reasons, "\n"), tc.reason) {
			t.Errorf("%s: verdict %s, reasons %q; want %s, %q", tc.name, got.Verdict, got.Reasons, tc.verdict, tc.reason)
		}
	}
	if got := Run(film(load(t, "zonal-gateway", "main"), true, second)); got.Verdict != report.Fail {
		t.Errorf("with the mirror half may be lost: %s", got.Verdict)
	}
}

func TestServiceNumbers(t *testing.T) {
	with := film(load(t, orphan, "main"), true, world(always).broken(refused, 0, 4, "b/service/api-get/new").broken(refused, 62, 62.3, "a/service/api-get/reused"))
	without := film(load(t, orphan, "main"), false, world(always).broken(refused, 0, 60, "b/service/api-get"))
	for _, rec := range []*record.Record{with, without} {
		rec.Run.Faults[0].Name = rec.Case.Faults[0].Name
	}
	for _, f := range append(scene(2, 2.5), node(-4, "a1")) {
		f(with)
	}
	node(50, "b1")(without)
	node(55, "b1")(without)
	got := Assemble([]*record.Record{without, with}).Numbers
	for name, want := range map[string]float64{
		"with_failed_new": 20, "with_asked_new": 1200, "with_failed_kept": 0, "with_failed_after": 2, "with_nodes_not_ready": 0,
		"with_lost_percent_b_new": 3.3, "with_lost_percent_a_new": 0, "with_lost_until_ms": 3850,
		"with_endpoint_out_ms": 2000, "with_adopted_after_ms": 2500, "with_adoption_ms": 500, "with_zone_unserved_ms": 500,
		"with_given_back_ms": 3000, "with_endpoint_changes": 2, "with_probes_after_adoption": 560, "with_lost_after_adoption": 0,
		"without_nodes_not_ready": 1, "without_first_not_ready_ms": 50000, "without_lost_percent_b_kept": 50,
	} {
		if is, ok := got[name]; !ok || is != want {
			t.Errorf("%s is %v, want %v", name, is, want)
		}
	}
	for _, name := range []string{"without_adoption_ms", "without_endpoint_changes", "without_transitions"} {
		if _, ok := got[name]; ok {
			t.Errorf("%s is given: %v", name, got[name])
		}
	}
	if got := serviceNumbers(film(load(t, "flap", "main"), true, always)); got != nil {
		t.Errorf("numbers of a drill without Kubernetes: %v", got)
	}
}

func TestStretches(t *testing.T) {
	rec := film(load(t, orphan, "cut"), true, always)
	for _, f := range []func(*record.Record){saw(-1, a), saw(1, b), saw(2, c), saw(3, a)} {
		f(rec)
	}
	j := &run{rec: rec}
	states, _ := j.endpoints()
	notA := func(l []record.Endpoint) bool { return len(serving(l, "a")) == 0 }
	got := stretches(states, at(0), at(10), notA)
	if want := []stretch{{at(1), at(3)}}; !slices.Equal(got, want) {
		t.Errorf("stretches %v, want %v", got, want)
	}
	got = stretches(states, at(1.5), at(2.5), notA)
	if want := []stretch{{at(1.5), at(2.5)}}; !slices.Equal(got, want) {
		t.Errorf("clipped stretches %v, want %v", got, want)
	}
	if s := longest(nil); s.length() != 0 {
		t.Errorf("the longest of none is %v", s)
	}
	if struck := j.struckAPIServers(record.Fault{Name: "apiserver-b"}); !slices.Equal(struck, []string{"b"}) {
		t.Errorf("struck are %v, want b alone", struck)
	}
}

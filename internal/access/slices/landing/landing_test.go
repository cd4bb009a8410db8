package landing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/access/datapath"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// three are the endpoints of zones a, b and c, each ready and hinted for its own.
func three() []Endpoint {
	var all []Endpoint
	for i, zone := range []string{"a", "b", "c"} {
		all = append(all, Endpoint{Address: fmt.Sprintf("10.0.0.%d:6443", i+1), Node: "cp-" + zone, Zone: zone, Hints: []string{zone}, Ready: true})
	}
	return all
}

func TestExpect(t *testing.T) {
	for _, c := range []struct {
		name, zone string
		change     func(all []Endpoint)
		want       string // addresses, "|", others; or part of the doubt
	}{
		{"own zone", "a", nil, "10.0.0.1:6443|10.0.0.2:6443,10.0.0.3:6443"},
		{"an adopted zone", "d", func(all []Endpoint) { all[2].Hints = []string{"c", "d"} }, "10.0.0.3:6443|10.0.0.1:6443,10.0.0.2:6443"},
		{"two for the zone", "a", func(all []Endpoint) { all[1].Hints = []string{"a", "b"} }, "10.0.0.1:6443,10.0.0.2:6443|10.0.0.3:6443"},
		{"an unready one needs no hint", "a", func(all []Endpoint) { all[1].Hints, all[1].Ready = nil, false }, "10.0.0.1:6443|10.0.0.3:6443"},
		{"an address twice", "a", func(all []Endpoint) { all[2] = all[0] }, "10.0.0.1:6443|10.0.0.2:6443"},
		{"no zone", "", nil, "kubectl label node n1 topology.kubernetes.io/zone=NAME"},
		{"no hint on one", "a", func(all []Endpoint) { all[1].Hints = nil }, "10.0.0.2:6443 has no hint, which switches zones off for all"},
		{"nobody for the zone", "d", nil, "no ready endpoint is hinted for zone d"},
		{"its only one is unready", "a", func(all []Endpoint) { all[0].Ready = false }, "no ready endpoint is hinted for zone a"},
		{"nobody ready", "a", func(all []Endpoint) { all[0].Ready, all[1].Ready, all[2].Ready = false, false, false }, "no endpoint is ready"},
		{"all for the zone", "a", func(all []Endpoint) { all[1].Hints, all[2].Hints = []string{"a"}, []string{"a", "c"} }, "every ready endpoint is hinted for zone a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := three()
			if c.change != nil {
				c.change(all)
			}
			e := Expect("n1", c.zone, all)
			got := strings.Join(e.Addresses, ",") + "|" + strings.Join(e.Others, ",")
			if e.Doubt != "" {
				got = e.Doubt
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// shown is what the endpoints of three show, each its own.
func shown() map[string]Answer {
	all := map[string]Answer{}
	for i, e := range three() {
		all[e.Address] = Answer{Print: Print{byte(i + 1)}}
	}
	return all
}

// got makes answers by letter: a, b and c are endpoints of these zones, ? is
// somebody else, and - is lost.
func got(letters string) []Answer {
	var all []Answer
	for _, l := range letters {
		switch l {
		case '-':
			all = append(all, Answer{Err: errors.New("i/o timeout")})
		case '?':
			all = append(all, Answer{Print: Print{9}})
		default:
			all = append(all, Answer{Print: Print{byte(l-'a') + 1}})
		}
	}
	return all
}

func TestTrial(t *testing.T) {
	mute := func(zone string) func(*Trial) {
		return func(t *Trial) { t.Shown[three()[zone[0]-'a'].Address] = Answer{Err: errors.New("no route to host")} }
	}
	same := func(x, y string) func(*Trial) {
		return func(t *Trial) { t.Shown[three()[x[0]-'a'].Address] = t.Shown[three()[y[0]-'a'].Address] }
	}
	well := strings.Repeat("a", 20)
	for _, c := range []struct {
		name, got string
		change    func(*Trial)
		verdict   Verdict
		reason    string // a part of it
	}{
		{"all stay", well, nil, Kept, "20 of 20 connections stayed with the endpoints of zone a"},
		{"one strays", well + "b", nil, Strays, "1 of 21 connections left zone a, to 10.0.0.2:6443: kube-proxy on this node does not honour zones: restart it"},
		{"a third is lost, a third strays", "abc-ab-ca-", mute("b"), Strays, "2 of 10 connections left zone a, to 10.0.0.3:6443"},
		{"too few", "aaa", nil, Unclear, "3 connections are too few to tell: use --count 7"},
		{"just enough", "aaaaaaa", nil, Kept, ""},
		{"half of the endpoints are hinted: too few", "aaaaaaaaa", func(t *Trial) { t.Endpoints[1].Ready = false }, Unclear, "use --count 10"},
		{"none", "", nil, Unclear, "give --count of at least 1"},
		{"one certificate for all", well, func(t *Trial) { same("b", "a")(t); same("c", "a")(t) }, Unclear, "10.0.0.1:6443 and 10.0.0.2:6443 and 10.0.0.3:6443 show the same certificate"},
		{"one certificate for two others", well, same("c", "b"), Kept, ""},
		{"a stray beside one certificate for two others", well + "b", same("c", "b"), Strays, "to 10.0.0.2:6443, 10.0.0.3:6443"},
		{"a mute endpoint elsewhere, and all stay", well, mute("b"), Kept, ""},
		{"a mute endpoint elsewhere, and some are lost", "aa-aaaaaaaaa", mute("b"), Unclear, "1 of 12 connections were lost, maybe to 10.0.0.2:6443"},
		{"some are lost", "aa-aaaaaaaaa", nil, Unclear, "1 of 12 connections were lost: try again when every endpoint answers"},
		{"all are lost", "---", nil, Unclear, "no connection was answered (i/o timeout): see whether kube-proxy runs on this node"},
		{"the own endpoint is mute", well, mute("a"), Unclear, "answered with a certificate of nobody that could be asked, and 10.0.0.1:6443 did not answer"},
		{"a stranger answers", well + "?", nil, Unclear, "1 of 21 connections were answered with a certificate that no endpoint shows"},
		{"affinity", well, func(t *Trial) { t.Affinity = true }, Unclear, "sessionAffinity of the Service is ClientIP"},
		{"affinity to another zone", "bbbbb", func(t *Trial) { t.Affinity = true }, Strays, ""},
		{"no zone", well, func(t *Trial) { t.Zone = "" }, Unclear, "node n1 has no zone"},
		{"an unready endpoint answers", well + "b", func(t *Trial) { t.Endpoints[1].Ready = false }, Strays, "to 10.0.0.2:6443"},
		{"hints are not in force", "abcabc", func(t *Trial) { t.Endpoints[1].Hints = nil }, Unclear, "has no hint"},
	} {
		t.Run(c.name, func(t *testing.T) {
			trial := Trial{Node: "n1", Zone: "a", Endpoints: three(), Shown: shown(), Got: got(c.got), Cause: Cause(datapath.Datapath{Kind: datapath.KubeProxy}, "PreferClose")}
			if c.change != nil {
				c.change(&trial)
			}
			r := trial.Judge()
			if r.Verdict != c.verdict || !strings.Contains(r.Reason, c.reason) || strings.Contains(r.Reason, "\n") {
				t.Errorf("got  %s: %s\nwant %s: %s", r.Verdict, r.Reason, c.verdict, c.reason)
			}
			sum := r.Lost + r.Strangers
			for _, row := range r.Rows {
				sum += row.Connections
			}
			if len(r.Rows) != 3 || sum < r.Count {
				t.Errorf("%d of %d connections are accounted for in %d rows", sum, r.Count, len(r.Rows))
			}
		})
	}
}

func TestCause(t *testing.T) {
	server := kubeapi.ServerVersion{Major: 1, Minor: 37}
	for _, c := range []struct {
		d             datapath.Datapath
		traffic, want string
	}{
		{datapath.Datapath{Kind: datapath.KubeProxy, Server: server}, "PreferSameZone", "kube-proxy on this node does not honour zones: restart it"},
		{datapath.Datapath{Kind: datapath.KubeProxy, Server: server}, "", "kube-proxy on this node does not honour zones: restart it (and trafficDistribution is not set: traffic goes to every zone; set PreferSameZone)"},
		{datapath.Datapath{Kind: datapath.Unknown}, "PreferClose", "kube-proxy on this node does not honour zones: restart it"},
		{datapath.Datapath{Kind: datapath.Cilium, Major: 1, Minor: 19, Server: server}, "PreferSameZone", "trafficDistribution PreferSameZone: cilium 1.19 ignores it; set PreferClose"},
		{datapath.Datapath{Kind: datapath.Cilium, Major: 1, Minor: 19, Server: server}, "PreferClose", "Cilium on this node does not honour zones: set loadBalancer.serviceTopology=true in its Helm values, and restart its agent here"},
	} {
		if got := Cause(c.d, c.traffic); got != c.want {
			t.Errorf("%s, %q:\ngot  %s\nwant %s", c.d, c.traffic, got, c.want)
		}
	}
}

func TestBook(t *testing.T) {
	b := Book{"x:1": {1}, "y:1": {1}, "z:1": {2}}
	if got := b.Who(Print{1}); !slices.Equal(got, []string{"x:1", "y:1"}) {
		t.Error(got)
	}
	all := []Endpoint{{Address: "y:1"}, {Address: "w:1"}, {Address: "w:1"}}
	if got := b.Unknown(all); !slices.Equal(got, []string{"w:1"}) {
		t.Error(got)
	}
	b.Keep(all)
	if len(b) != 1 || b["y:1"] != (Print{1}) {
		t.Error(b)
	}
}

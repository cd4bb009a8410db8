package scenario

import (
	"strings"
	"testing"
	"time"
)

func TestKubernetesBringsItsDefaults(t *testing.T) {
	c := mustCase(t, "partial-split-kubernetes", "quick")
	if !c.APIServers || c.Balance.Without != ProfileNone || c.Slices.Without != ReconcilerLease || c.Phases.Hold != time.Minute {
		t.Errorf("case %+v", c)
	}
	if !c.HasBalancers(true) || c.HasBalancers(false) {
		t.Error("balancers belong to the run with the agents alone")
	}
	if c := mustCase(t, "orphan-zone", "cut"); c.Slices.Without != ReconcilerSeed || c.Slices.Out != 4*time.Second || c.Slices.AdoptedWithin() != 3*time.Second {
		t.Errorf("slices %+v", c.Slices)
	}
	if c := mustCase(t, "balance-killed", "main"); !c.HasBalancers(false) || c.Slices != (Slices{}) {
		t.Errorf("case without Kubernetes: %+v", c)
	}
	c = mustCase(t, "etcd-headless", "main")
	if c.StorageIn(true) != AgentEtcdBalance || c.StorageIn(false) != StorageList {
		t.Errorf("storage %q with the agents, %q without", c.StorageIn(true), c.StorageIn(false))
	}
	if z := mustCase(t, "flap", "main").Zone("b"); z != "b" {
		t.Errorf("zone of b is %q", z)
	}
}

func TestServicePathsAreNamed(t *testing.T) {
	c := mustCase(t, "partial-split-kubernetes", "main")
	p := pathNamed(t, c, "b/service/api-put/reused")
	if !p.InPod() || p.Balanced() || p.Shown() != "service" || p.Target != TargetService {
		t.Errorf("path %+v", p)
	}
	if p := pathNamed(t, mustCase(t, "zonal-gateway", "main"), "a/gateway/web/new"); p.InPod() || p.Shown() != "gateway" || IsAPI(p.Kind) || !IsHTTP(p.Kind) {
		t.Errorf("path %+v", p)
	}
}

func TestResolveSiteAgents(t *testing.T) {
	c := mustCase(t, "partial-split-kubernetes", "main")
	procs, err := c.Resolve("b")
	var words []string
	for _, p := range procs {
		words = append(words, p.String()+":"+p.Kind())
	}
	if got, want := strings.Join(words, " "), "agent:slices/b:slices agent:balance/b:balance agent:main/b:leader apiserver/b:leader main/b:leader"; got != want || err != nil {
		t.Errorf("site b is %s, %v; want %s", got, err, want)
	}
	if _, err := c.Resolve("agent:zonal/b"); err == nil || !strings.Contains(err.Error(), "choose one of slices, balance, main") {
		t.Errorf("an agent that does not run: %v", err)
	}
}

func TestServiceWindows(t *testing.T) {
	c := mustCase(t, "partial-split-kubernetes", "main")
	for _, tc := range []struct {
		window, path string
		max          time.Duration
	}{
		{"service-split", "b/service/api-get/new", 5986 * time.Millisecond},
		{"service-split", "b/service/api-get/reused", 7986 * time.Millisecond},
		// The promises of 4 s and 3 s, 1 s of kube-proxy, 300 ms of sampling, 500 ms of slack.
		{"service-adopt", "b/service/api-get/new", 8800 * time.Millisecond},
		{"service-adopt", "b/service/api-get/reused", 9100 * time.Millisecond},
		{"service-silent", "b/service/api-get/new", 8800 * time.Millisecond},
		{"service-silent", "b/service/api-get/reused", 11400 * time.Millisecond},
		{"service-stalled", "b/service/api-get/reused", 13400 * time.Millisecond},
	} {
		w, err := c.WindowOf(pathNamed(t, c, tc.path), tc.window)
		if err != nil || w.Min != 0 || w.Max != tc.max {
			t.Errorf("%s of %s: %+v, %v; want %s", tc.window, tc.path, w, err, tc.max)
		}
	}
	for preset := range presetRTT {
		c.Lab.Preset = preset
		for name, most := range map[string]time.Duration{"b/service/api-get/new": 6 * time.Second, "b/service/api-get/reused": 8 * time.Second} {
			if w, _ := c.WindowOf(pathNamed(t, c, name), "service-split"); preset != "one-way" && w.Max > most {
				t.Errorf("preset %s allows %s %s, promised are %s", preset, name, w.Max, most)
			}
		}
	}
}

// kube is a valid scenario of Kubernetes to spoil.
const kube = `version: 1
name: kube
title: Kube
kubernetes: true
gateway: [a]
agents: [slices, zonal, balance]
slices: {changes: {max: 1}}
nodesReady: true
paths: [{targets: [service], kinds: [api-get]}, {sites: [a], targets: [gateway], kinds: [web]}]
faults: [{name: f, kill: [apiserver/b]}]
expect: [{role: clean, failedAfter: 0, without: half}]
variants: [{name: main, leaders: {main: a}}]
`

func TestMistakesWithKubernetesGetOneLine(t *testing.T) {
	if _, err := Parse("x.yaml", []byte(kube)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, old, new, want string }{
		{"slices without kube-proxy", "kubernetes: true\n", "apiservers: true\n", "agents: slices has no kube-proxy to publish for; add kubernetes: true"},
		{"no gateway", "gateway: [a]\n", "", "agents: zonal has no gateway to serve; add gateway: [a, b]"},
		{"unknown site", "gateway: [a]", "gateway: [z]", `gateway[0]: "z" is unknown; choose one of a, b, c`},
		{"nobody publishes", "[slices, zonal, balance]", "[zonal, balance]", "slices: nobody publishes them; add slices to agents"},
		{"storage", "gateway: [a]", "gateway: [a]\nstorage: disk", `storage: "disk" is unknown; choose one of own, list`},
		{"reconciler", "changes: {max: 1}", "without: none", `slices.without: "none" is unknown; choose one of lease, seed`},
		{"bounds", "max: 1", "min: 2, max: 1", "slices.changes: min 2 max 1; write 0 ≤ min ≤ max"},
		{"negative", "changes: {max: 1}", "out: -1s", "slices.out, slices.adopted: -1s, 0s; durations are not negative"},
		{"etcd through the Service", "kinds: [api-get]", "kinds: [get]", "paths[a/service/get/new].kinds: the Service serves no get; choose one of api-get, api-put, api-watch"},
		{"web elsewhere", "targets: [service], kinds: [api-get]", "kinds: [web]", "web and gateway go together; write targets: [gateway], kinds: [web]"},
		{"site without gateway", "{sites: [a], targets", "{sites: [b], targets", "paths[b/gateway/web/new].sites: site b has no gateway; choose one of a"},
		{"no balancer without", "targets: [service]", "targets: [balance]", "paths[a/balance/api-get/new].targets: the run without the agents has no balancer; write balance: {without: anchors}, or ask the service"},
		{"after of nothing", "{role: clean,", "{role: info, failedAfter: 1}, {role: clean,", "expect[0].failedAfter: 1 of a path with role info; write 0 or more, for a path that is judged"},
		{"site called service", "kubernetes: true", "kubernetes: true\nlab: {sites: [{name: a}, {name: service}]}", `lab.sites: "service" is a word for targets; rename the site`},
		{"cluster called slices", "{main: a}", "{slices: a}, clusters: [{name: slices}]", `clusters: "slices" is what faults call the slices of a site; rename the cluster`},
	} {
		text := strings.Replace(kube, tc.old, tc.new, 1)
		_, err := Parse("x.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s:\n got %v\nwant %s", tc.name, err, tc.want)
		}
	}
	for old, want := range map[string]string{"kubernetes: true\n": "gateway: there are no pods to stand behind it", "gateway: [a]\nagents: [slices, zonal, balance]\nslices: {changes: {max: 1}}\n": "nodesReady: there are no kubelets"} {
		text := strings.Replace(strings.Replace(kube, "[slices, zonal, balance]", "none", 1), "slices: {changes: {max: 1}}\n", "", 1)
		if strings.HasPrefix(old, "gateway") {
			text = strings.Replace(strings.Replace(text, "gateway: [a]\n", "", 1), ", {sites: [a], targets: [gateway], kinds: [web]}", "", 1)
		}
		text = strings.Replace(text, "kubernetes: true\n", "apiservers: true\n", 1)
		if _, err := Parse("x.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

package scenario

import (
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func TestAgentsAreOneNameOrAList(t *testing.T) {
	for text, want := range map[string]string{
		"leader\n": "leader\n", "[leader]\n": "leader\n", "[leader, balance]\n": "- leader\n- balance\n",
	} {
		var a Agents
		if err := yaml.Unmarshal([]byte(text), &a); err != nil {
			t.Fatal(err)
		}
		back, err := yaml.Marshal(a)
		if err != nil || string(back) != want {
			t.Errorf("%q became %q, %v, want %q", text, back, err, want)
		}
	}
	_, err := Parse("x.yaml", []byte(strings.Replace(api, "agents: balance", "agents: {balance: true}", 1)))
	if err == nil || !strings.HasPrefix(err.Error(), `x.yaml:5: field "agents": `) || !strings.Contains(err.Error(), "such as [leader, balance]") {
		t.Errorf("a mapping of agents: %v", err)
	}
}

func TestResolveAPIServers(t *testing.T) {
	c := mustCase(t, "partial-split", "kubelet")
	for target, want := range map[string]string{
		"b": "agent:balance/b agent:main/b apiserver/b main/b", "apiserver/a": "apiserver/a", "agent:balance/c": "agent:balance/c",
		"agent:apiserver/a": `error: cluster of agent:apiserver/a: "apiserver" is unknown; choose one of balance, main`,
		"balance/a":         `error: cluster of balance/a: "balance" is unknown; choose one of apiserver, main`,
	} {
		procs, err := c.Resolve(target)
		var words []string
		for _, p := range procs {
			words = append(words, p.String())
		}
		got := strings.Join(words, " ")
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("Resolve(%q) = %s, want %s", target, got, want)
		}
	}
	if !APIServer("a").IsAPIServer() || APIServer("a").IsBalancer() || !Balancer("a").IsBalancer() || Balancer("a").IsAPIServer() {
		t.Error("apiservers and balancers are not told apart")
	}
}

func TestAPIPathsAreNamed(t *testing.T) {
	c := mustCase(t, "balance-killed", "main")
	p := pathNamed(t, c, "b/balance/api-put/reused")
	if p.Target != TargetBalance || p.Cluster != "main" || p.Shown() != "balance" || !p.Balanced() || !p.Kept() {
		t.Errorf("path %+v", p)
	}
	if p := pathNamed(t, c, "b/balance/api-watch/stream"); !p.Kept() {
		t.Errorf("path %+v", p)
	}
	own := newPath(Paths{}, "a", "main", "own", "api-get", "new")
	far := newPath(Paths{}, "a", "main", "b", "api-get", "new")
	if own.Name != "a/apiserver/api-get/new" || own.Kept() || far.Name != "a/apiserver@b/api-get/new" || far.Shown() != "apiserver@b" {
		t.Errorf("paths %+v and %+v", own, far)
	}
	if c.Balance.Without != ProfileAnchors || mustCase(t, "balance-killed", "seed").Balance.Without != ProfileSeed {
		t.Error("the profile of the run without the agents is not the variant's")
	}
}

func TestBalanceWindows(t *testing.T) {
	c := mustCase(t, "balance-all-down", "main")
	fresh := pathNamed(t, c, "a/balance/api-get/new")
	kept := pathNamed(t, c, "a/balance/api-watch/stream")
	for _, tc := range []struct {
		name        string
		path        Path
		max, served time.Duration
	}{
		// The promises of 1.5 s and 2.5 s, 200 ms of sampling, 500 ms of slack.
		{"balance", fresh, 2200 * time.Millisecond, 0},
		{"balance", kept, 3500 * time.Millisecond, 0},
		{"balance-unready", fresh, 5200 * time.Millisecond, 0},
		{"balance-refused", fresh, 0, 0},
		{"balance-refused", kept, time.Second, 0},
		{"balance-served", fresh, 22700 * time.Millisecond, 1700 * time.Millisecond},
		{"balance-served", kept, 23 * time.Second, 2 * time.Second},
	} {
		w, err := c.WindowOf(tc.path, tc.name)
		if err != nil || w.Min != 0 || w.Max != tc.max || w.Served != tc.served {
			t.Errorf("%s of %s: %+v, %v", tc.name, tc.path.Name, w, err)
		}
	}
}

// api is a valid scenario of apiservers to spoil.
const api = `version: 1
name: api
title: Api
apiservers: true
agents: balance
paths: [{targets: [balance], kinds: [api-get]}]
faults: [{name: f, unready: [apiserver/b]}]
expect: [{role: clean, failed: 0, without: any}]
variants: [{name: main, leaders: {main: a}}]
`

func TestMistakesWithAPIServersGetOneLine(t *testing.T) {
	if _, err := Parse("x.yaml", []byte(api)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, old, new, want string }{
		{"no apiservers", "apiservers: true\n", "", "agents: balance has nothing to balance; add apiservers: true"},
		{"no balancer", "agents: balance", "agents: leader", "paths[a/balance/api-get/new].targets: there is no balancer; add balance to agents"},
		{"unknown agent", "agents: balance", "agents: [balance, moon]", `agents: "moon" is unknown; choose one of leader, balance, slices, zonal, etcd-balance, vip, front, pair, arbiter, none`},
		{"none and more", "agents: balance", "agents: [balance, none]", "agents: none stands beside others; leave it out"},
		{"etcd through a balancer", "api-get", "get", "paths[a/balance/get/new].kinds: a balancer serves no get; choose one of api-get, api-put, api-watch"},
		{"unready member", "apiserver/b", "main/b", `faults[0]: unready: "main/b" is no apiserver; write apiserver/SITE`},
		{"unready site", "[apiserver/b]", "[b]", `faults[0]: unready: "b" is no apiserver; write apiserver/SITE`},
		{"cluster called apiserver", "{main: a}", "{apiserver: a}, clusters: [{name: apiserver}]", `clusters: "apiserver" is what faults call the apiserver of a site; rename the cluster`},
		{"site called balance", "apiservers: true", "apiservers: true\nlab: {sites: [{name: a}, {name: b}, {name: balance}]}", `lab.sites: "balance" is a word for targets; rename the site`},
		{"profile", "agents: balance", "agents: balance\nbalance: {without: nginx}", `balance.without: "nginx" is unknown; choose one of anchors, seed, haproxy, none`},
		{"bounds", "agents: balance", "agents: balance\nbalance: {resets: {min: 2, max: 1}}", "balance.resets: min 2 max 1; write 0 ≤ min ≤ max"},
		{"etcd check", "agents: balance", "agents: balance\netcdCheck: 1h", "etcdCheck: 1h0m0s is out of range; choose up to 1m"},
		{"failed of an affected path", "role: clean", "role: affected, window: balance", "expect[0].failed, gaps: they bound clean paths, not affected ones; remove them"},
		{"negative", "failed: 0", "failed: -1", "expect[0].failed, gaps: negative; write 0 for none"},
		{"promptness of nothing", "{role: clean,", "{role: info, failWithin: 1s}, {role: clean,", "expect[0].failWithin: 1s of a path that is not judged; remove it"},
		{"window of a clean path", "without: any", "without: takeover", `expect[0].without: "takeover" of a clean path; write any, half or never`},
	} {
		text := strings.Replace(api, tc.old, tc.new, 1)
		_, err := Parse("x.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s:\n got %v\nwant %s", tc.name, err, tc.want)
		}
	}
}

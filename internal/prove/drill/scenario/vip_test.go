package scenario

import (
	"strings"
	"testing"
	"time"
)

func TestResolveMachines(t *testing.T) {
	for _, tc := range []struct{ name, target, want string }{
		{"vip-node-silent", "agent:vip/a2", "agent:vip/a2"},
		{"vip-node-silent", "a2", "agent:vip/a2"},
		{"vip-node-silent", "a1", "agent:main/a main/a"},
		{"vip-node-silent", "a", "agent:vip/a2 agent:vip/a3 agent:vip/a4 agent:main/a main/a"},
		{"vip-node-silent", "agent:vip/a1", `error: node of agent:vip/a1: "a1" is unknown; choose one of a2, a3, a4`},
		{"vip-node-silent", "a9", `error: site: "a9" is unknown; choose one of a, b`},
		{"vip-apiserver-dead", "apiserver/a2", "apiserver/a2"},
		{"vip-apiserver-dead", "apiserver/b", "apiserver/b"},
		{"vip-apiserver-dead", "a1", "agent:vip/a1 apiserver/a1 agent:main/a main/a"},
		{"vip-balance-pair", "a2", "agent:vip/a2 agent:front/a2"},
	} {
		procs, err := mustCase(t, tc.name, "main").Resolve(tc.target)
		var words []string
		for _, p := range procs {
			words = append(words, p.String())
		}
		got := strings.Join(words, " ")
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: Resolve(%q) = %s, want %s", tc.name, tc.target, got, tc.want)
		}
	}
}

// The windows of addresses are the sums of their timers, and a margin that is no
// longer than what makes a run inconclusive.
func TestAddressWindows(t *testing.T) {
	const noise = 250 * time.Millisecond
	c := mustCase(t, "vip-node-silent", "second")
	udp, kept := pathNamed(t, c, "a/address/udp/new"), pathNamed(t, c, "b/address/echo/reused")
	// Three adverts and 56/256 of one, two samples of 5 ms.
	const down, slow = 321875 * time.Microsecond, 3218750 * time.Microsecond
	for _, tc := range []struct {
		name     string
		path     Path
		min, max time.Duration
	}{
		{"vip-silent", udp, down - 110*time.Millisecond, down + 10*time.Millisecond + noise},
		{"vip-silent", kept, down - 200*time.Millisecond, 2*down + 200*time.Millisecond + 100*time.Millisecond + noise},
		{"vip-silent-peer", udp, slow - 1010*time.Millisecond, slow + 10*time.Millisecond + noise},
		{"vip-lease", udp, 0, 2625*time.Millisecond + 110*time.Millisecond + noise},
		{"vip-health", udp, 0, 2160*time.Millisecond + noise},
		{"vip-refused", udp, 0, 160*time.Millisecond + noise},
		{"vip-resigned", udp, 0, 31875*time.Microsecond + noise},
	} {
		w, err := c.WindowOf(tc.path, tc.name)
		if err != nil || w.Min != tc.min || w.Max != tc.max || !w.FromLoss {
			t.Errorf("%s of %s: %+v, %v, want %s to %s", tc.name, tc.path.Name, w, err, tc.min, tc.max)
		}
	}
	if c.VIP.PeerAdvert() != time.Second || mustCase(t, "vip-node-silent", "main").VIP.PeerAdvert() != DefaultAdvert {
		t.Error("the adverts of keepalived are not those of its profile")
	}
	for _, bar := range []struct {
		name, path, window string
		most               time.Duration
	}{
		{"vip-lease-cut", "a/address/udp/new", "vip-lease", 3 * time.Second},
		{"vip-apiserver-hung", "a/address/api-get/new", "vip-health", 2500 * time.Millisecond},
	} {
		c := mustCase(t, bar.name, "main")
		w, err := c.WindowOf(pathNamed(t, c, bar.path), bar.window)
		if err != nil || w.Max > bar.most {
			t.Errorf("%s allows %s, %v; the product promises %s", bar.name, w.Max, err, bar.most)
		}
	}
}

func TestClientsStandBesideTheMachines(t *testing.T) {
	for name, want := range map[string]string{"vip-node-silent": "a1", "vip-apiserver-dead": "a3", "partial-split": "a1"} {
		if got := mustCase(t, name, "main").ClientNode("a"); got != want {
			t.Errorf("%s: the clients of a stand on %s, want %s", name, got, want)
		}
	}
}

const held = `version: 1
name: held
title: Held
lab: {sites: [{name: a, nodes: 4}, {name: b}]}
agents: vip
vip: {nodes: [a2, a3]}
paths: [{targets: [address], kinds: [udp], interval: 5ms, timeout: 200ms}]
faults: [{name: f, kill: [agent:vip/a2]}]
expect: [{role: clean, without: any}]
variants: [{name: main, leaders: {main: a}}]
`

func TestMistakesWithAddressesGetOneLine(t *testing.T) {
	if _, err := Parse("x.yaml", []byte(held)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, old, new, want string }{
		{"nobody", "vip: {nodes: [a2, a3]}", "vip: {}", "vip.nodes: is empty; name the machines that may hold the address, such as [a2, a3]"},
		{"no agent", "agents: vip\n", "agents: leader\n", "vip: nobody holds the address; add vip to agents"},
		{"one machine", "[a2, a3]", "[a2]", "vip.nodes: 1 machines; name 2 to 20"},
		{"no such machine", "[a2, a3]", "[a2, a9]", `vip.nodes[1]: "a9" is unknown; choose one of a1, a2, a3, a4`},
		{"another site", "[a2, a3]", "[a2, b1]", `vip.nodes[1]: "b1" is unknown; choose one of a1, a2, a3, a4`},
		{"twice", "[a2, a3]", "[a2, a2]", `vip.nodes[1]: "a2" is given twice; name each machine once`},
		{"no place for clients", "[a2, a3]", "[a1, a2, a3, a4]", "vip.nodes: no node of site a is left for its clients; give the site one more"},
		{"mode", "[a2, a3]", "[a2, a3], mode: carp", `vip.mode: "carp" is unknown; choose one of vrrp, lease, anycast`},
		{"record", "[a2, a3]", "[a2, a3], record: etcd", "vip.record, vip.policy: there is no lease; add mode: lease"},
		{"kubernetes", "[a2, a3]", "[a2, a3], mode: lease, record: kubernetes", "vip: there is no apiserver for record, without or health; add apiservers: true"},
		{"front", "agents: vip\nvip: {nodes: [a2, a3]", "apiservers: true\nagents: vip\nvip: {nodes: [a2, a3], health: front", "vip.health: there is no front; add front to agents"},
		{"front without health", "agents: vip", "agents: [vip, front]", "agents: front has no address to serve at; add health: front to vip"},
		{"apiservers elsewhere", "agents: vip\nvip: {nodes: [a2, a3]", "apiservers: true\nagents: vip\nvip: {nodes: [a2, a3], health: apiserver", "vip.nodes: with health: apiserver they are the first of the site, in order; write [a1, a2]"},
		{"interval", "[a2, a3]", "[a2, a3], interval: 1ms", "vip.interval: 1ms is out of range; choose 10ms to 10s"},
		{"without", "[a2, a3]", "[a2, a3], without: frr", `vip.without: "frr" is unknown; choose one of keepalived, keepalived-fast, leaderelection, leaderelection-fast`},
		{"kind", "kinds: [udp]", "kinds: [put]", "paths[a/address/put/new].kinds: the address serves no put; choose one of udp, echo, api-get, api-put, api-watch"},
		{"target", "targets: [address]", "targets: [own]", "paths[a/main/udp/new].targets: udp asks the held address alone; write targets: [address]"},
		{"api without health", "agents: vip\n", "apiservers: true\nagents: vip\n", "paths[a/address/api-get/new].kinds: no apiserver serves at the address; add health to vip, or choose udp or echo"},
		{"too often", "interval: 5ms", "interval: 1ms", "paths[a/address/udp/new]: interval 1ms timeout 200ms; choose interval ≥ 2ms and interval ≤ timeout ≤ 1m"},
		{"off", "kill: [agent:vip/a2]", "off: [a9]", `faults[0]: off: "a9" is unknown; choose one of a1, a2, a3, a4, b1`},
		{"release", "kill: [agent:vip/a2]", "release: [main/a]", `faults[0]: release: "main/a" holds no address; write agent:vip/NODE`},
		{"moves", "[a2, a3]", "[a2, a3], moves: {min: 2, max: 1}", "vip.moves: min 2 max 1; write 0 ≤ min ≤ max"},
	} {
		text := strings.Replace(held, tc.old, tc.new, 1)
		if tc.name == "api without health" {
			text = strings.Replace(text, "kinds: [udp], interval: 5ms", "kinds: [api-get], interval: 50ms", 1)
		}
		_, err := Parse("x.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
	}
}

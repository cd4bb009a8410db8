package vip

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/base/config"
)

func decode(t *testing.T, text string) (Settings, error) {
	t.Helper()
	s := defaultSettings()
	if err := config.Decode(strings.NewReader(text), "vip.yaml", &s); err != nil {
		return s, err
	}
	return s, s.complete()
}

func TestSampleIsValid(t *testing.T) {
	s, err := decode(t, Sample)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Groups) != 4 || s.Groups[0].VRRP == nil || s.Groups[1].Lease == nil || s.Groups[3].Anycast == nil {
		t.Errorf("read %+v", s)
	}
	// What the sample says in comments to be defaults, is.
	little, err := decode(t, "groups: [{name: api, addresses: [192.0.2.100, 2001:db8::100], vrrp: {vrid: 51}}]")
	if err != nil {
		t.Fatal(err)
	}
	a, b := *little.Groups[0].VRRP, *s.Groups[0].VRRP
	a.Accept, b.Accept, a.Peers, b.Peers, a.peers, b.peers = nil, nil, nil, nil, nil, nil
	if a.VRID != b.VRID || a.Interval != b.Interval || a.Priority != b.Priority || a.Version != b.Version || a.Preempt != b.Preempt {
		t.Errorf("defaults %+v, sample %+v", a, b)
	}
	if little.Control != s.Control || little.Table != s.Table || little.Telemetry != s.Telemetry || little.Log != s.Log {
		t.Errorf("defaults %+v, sample %+v", little, s)
	}
}

// Each mistake is one line that names field, value and remedy.
func TestMistakes(t *testing.T) {
	group := func(rest string) string {
		return "groups: [{name: api, addresses: [192.0.2.100], " + rest + "}]"
	}
	const routers = "bgp: {as: 65010, peers: [{address: 192.0.2.1, as: 65001, bfd: {}}]}"
	for text, want := range map[string]string{
		"":                                       "groups: none; write at least one",
		"grups: []":                              "grups",
		"groups: [{name: A}]":                    `groups[0].name: "A"; write a name of small letters`,
		group(""):                                "group api: 0 of vrrp, lease and anycast; write exactly one",
		group("vrrp: {vrid: 1}, anycast: {}"):    "group api: 2 of vrrp, lease and anycast; write exactly one",
		group("vrrp: {}"):                        "group api: vrrp.vrid 0: set 1 to 255",
		group("vrrp: {vrid: 1, priority: 255}"):  "vrrp.priority 255: set 1 to 254",
		group("vrrp: {vrid: 1, interval: 15ms}"): "vrrp.interval 15ms: VRRPv3 carries whole multiples of 10ms; set 20ms",
		group("vrrp: {vrid: 1, interval: 100}"):  "interval",
		group("vrrp: {vrid: 1, version: 2, interval: 100ms}"):                     "vrrp.interval 100ms: VRRPv2 carries 1s",
		group("vrrp: {vrid: 1, peers: [x]}"):                                      `vrrp.peers[0]: "x" is not the address of a machine`,
		group("vrrp: {vrid: 1, peers: [fe80::1]}"):                                "vrrp.peers: none of IPv4, of which there are addresses",
		group("vrrp: {vrid: 1}, announce: [garp]"):                                `announce[0]: "garp"; write each of arp, bgp, route once at most`,
		group("anycast: {}"):                                                      "announce: nothing beside anycast; write bgp or route",
		group("anycast: {}, announce: [arp]"):                                     "announce: arp beside anycast",
		group("vrrp: {vrid: 1}, health: [{kind: https}]"):                         `health[0].address: ""; write HOST:PORT`,
		group("vrrp: {vrid: 1}, health: [{kind: ping}]"):                          `health[0].kind: "ping"; write https, http, tcp, etcd, exec, process, file, carrier or bfd`,
		group("vrrp: {vrid: 1}, health: [{kind: process}]"):                       `health[0].process: ""; write the name as /proc/PID/comm has it`,
		group("vrrp: {vrid: 1}, health: [{kind: file, path: x}]"):                 `health[0].path: "x"; write the absolute path`,
		group("vrrp: {vrid: 1}, health: [{kind: exec}]"):                          "health[0].command: kind exec with the command",
		group("vrrp: {vrid: 1}, health: [{kind: file, path: /x, weight: 300}]"):   "health[0].weight: 300; write -253 to 253",
		group("vrrp: {vrid: 1}, hooks: [{command: [x]}]"):                         `hooks[0].command: "x" is no absolute path`,
		group("vrrp: {vrid: 1}, hooks: [{command: [/x], on: [master]}]"):          `hooks[0].on[0]: "master"; write initialize, backup, active, yielding`,
		group("lease: {self: a}"):                                                 "lease: write exactly one of kubernetes and etcd",
		group("lease: {self: a, kubernetes: {}}"):                                 `lease.peers: "a" itself is missing; add it`,
		group("lease: {self: a, etcd: {}}"):                                       "lease.etcd.endpoints: none",
		group("lease: {self: a, kubernetes: {}, peers: [{name: a, address: x}]}"): `lease.peers[0].address: "x"; write ADDRESS:PORT`,
		group("lease: {self: a, kubernetes: {}, policy: hold}"):                   `lease.policy "hold": want keep or drop`,
		group("lease: {self: a, kubernetes: {}, peers: [{name: a, address: '192.0.2.1:1'}]}, health: [{kind: file, path: /x, weight: 3}]"): "health[0].weight: 3 without vrrp",
		"groups: [{name: api, addresses: [192.0.2.100/24], vrrp: {vrid: 1}}]":                                                              `addresses[0]: "192.0.2.100/24" is not an IP address; write one without a prefix length`,
		"groups: [{name: api, addresses: [224.0.0.1], vrrp: {vrid: 1}}]":                                                                   "addresses[0]: 224.0.0.1 cannot be held",
		"groups: [{name: a, addresses: [192.0.2.1], vrrp: {vrid: 1}}, {name: a, addresses: [192.0.2.2], vrrp: {vrid: 2}}]":                 `groups[1].name: "a" is there twice`,
		"groups: [{name: a, addresses: [192.0.2.1], vrrp: {vrid: 1}}, {name: b, addresses: [192.0.2.1], vrrp: {vrid: 2}}]":                 "group b: addresses: 192.0.2.1 is in group a as well",
		"groups: [{name: a, addresses: [192.0.2.1], vrrp: {vrid: 1}}, {name: b, addresses: [192.0.2.2], vrrp: {vrid: 1}}]":                 "group b: vrrp.vrid: 1 is that of group a on the same interface",
		group("anycast: {}, announce: [bgp]"):                                                                                       "group api: announce[0]: bgp, but there are no routers; write bgp: {as: …, peers:",
		group("vrrp: {vrid: 1}, announce: [arp, route]"):                                                                            "group api: announce[1]: route, but there is no table; write route: {table: 198}",
		group("vrrp: {vrid: 1}") + "\n" + routers:                                                                                   "bgp: no group is announced by it; write announce: [bgp] there, or leave bgp out",
		group("vrrp: {vrid: 1}") + "\nroute: {table: 198}":                                                                          "route: no group is announced by it",
		group("anycast: {}, announce: [bgp]") + "\nbgp: {as: 65010}":                                                                "bgp.peers: none; name the routers to announce to",
		group("anycast: {}, announce: [bgp]") + "\nbgp: {as: 65010, peers: [{address: x, as: 1}]}":                                  `bgp.peers[0].address: "x" is not the address of a router`,
		group("anycast: {}, announce: [route]") + "\nroute: {table: local}":                                                         "route.table: ",
		group("vrrp: {vrid: 1}, health: [{kind: bfd}]"):                                                                             `health[0].address: ""; write the neighbor's IP address, without a port`,
		group("vrrp: {vrid: 1}, health: [{kind: bfd, address: 192.0.2.1, period: 1s}]"):                                             "health[0].period, timeout, rise, fall: bfd has none; write interval and multiplier",
		group("vrrp: {vrid: 1}, health: [{kind: bfd, address: 'fe80::1'}]"):                                                         "health[0].address: interface: missing, but peer fe80::1 is link-local",
		group("vrrp: {vrid: 1}, health: [{kind: bfd, address: 192.0.2.1, interval: 1ms}]"):                                          "health[0].interval: 1ms is out of range; use 10ms to 1m",
		group("vrrp: {vrid: 1}, health: [{kind: bfd, address: 192.0.2.1, multiplier: 300}]"):                                        "health[0].multiplier: 300 is out of range",
		group("vrrp: {vrid: 1}, health: [{kind: tcp, address: '192.0.2.1:1', multiplier: 3}]"):                                      "health[0].interval: 0s and multiplier: 3 are those of kind bfd",
		group("anycast: {}, announce: [bgp], health: [{kind: bfd, address: 192.0.2.1, interval: 1s}]") + "\n" + routers:             "group api: health[0].interval: 1s × 3, but bgp.peers[0].bfd runs the session with 192.0.2.1",
		group("vrrp: {vrid: 1}, health: [{kind: bfd, address: 192.0.2.1}, {name: b, kind: bfd, address: 192.0.2.1, interval: 1s}]"): "group api: health[1].interval: 1s × 3, but another check of 192.0.2.1 has 100ms × 3; make them equal",
		"control: x\n" + group("vrrp: {vrid: 1}"):                                                                                   `control: "x" is no absolute path`,
		"table: 'a b'\n" + group("vrrp: {vrid: 1}"):                                                                                 `table: "a b" cannot be the name`,
	} {
		_, err := decode(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

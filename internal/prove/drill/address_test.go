package drill

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

func TestKeepalivedConfigGolden(t *testing.T) {
	plain := vrrpPeer{iface: "eth0", address: "10.77.1.100", priority: 200, advert: 100 * time.Millisecond}
	kubelet := plain
	kubelet.advert, kubelet.check = time.Second, "https://kubernetes.default.svc:6443/readyz"
	kubelet.ca, kubelet.cert, kubelet.key = "/pki/ca.crt", "/pki/kubelet.crt", "/pki/kubelet.key"
	front := kubelet
	front.check, front.ca, front.cert, front.key = "https://127.0.0.1:7443/readyz", "", "", ""
	golden(t, "keepalived.conf", []byte(keepalivedConfig(plain)+"\n"+keepalivedConfig(kubelet)+"\n"+keepalivedConfig(front)))
}

func TestHAProxyConfigGolden(t *testing.T) {
	golden(t, "haproxy-plain.cfg", []byte(plainConfig([]string{"10.77.1.11:6443", "10.77.2.11:6443"})))
	golden(t, "haproxy.cfg", []byte(haproxyConfig([]string{"10.77.1.11:6443", "10.77.2.11:6443"})))
}

func TestKeepalivedLines(t *testing.T) {
	for line, want := range map[string]string{
		"Mon Nov 30 14:45:35 2026: (drill) Entering BACKUP STATE (init)": stateBackup,
		"Mon Nov 30 14:45:35 2026: (drill) Entering MASTER STATE":        stateActive,
		"Mon Nov 30 14:45:35 2026: (drill) Entering FAULT STATE":         "initialize",
		"Mon Nov 30 14:45:35 2026: (other) Entering MASTER STATE":        "",
		"": "",
	} {
		if got, ok := keepalivedLine(line); got != want || ok != (want != "") {
			t.Errorf("%q is state %q, %t, want %q", line, got, ok, want)
		}
	}
}

func TestElectionLines(t *testing.T) {
	for line, want := range map[string]string{
		"15:04:05.000000 holds the address: true": stateActive, "15:04:05.000000 holds the address: false\n": stateBackup, "leaderelection: lost": "",
	} {
		if got, ok := electionLine(line); got != want || ok != (want != "") {
			t.Errorf("%q is state %q, %t, want %q", line, got, ok, want)
		}
	}
}

func TestAgentsOfAnAddress(t *testing.T) {
	c := mustCase(t, "vip-balance-pair", "main")
	for _, agents := range []bool{true, false} {
		e := &engine{c: c, agents: agents}
		var words []string
		for _, p := range e.agentProcesses() {
			words = append(words, p.String())
			if e.inPlace(p) == agents {
				t.Errorf("with agents %t, %s is in their place: %t", agents, p, e.inPlace(p))
			}
		}
		if got := strings.Join(words, " "); got != "agent:front/a2 agent:front/a3 agent:vip/a2 agent:vip/a3" {
			t.Errorf("with agents %t there are %s", agents, got)
		}
	}
	p := scenario.NodeAgent(scenario.AgentVIP, "a2")
	ev, ok := parseAgentLine(p, []byte(`{"time":"2026-03-01T12:00:00Z","level":"INFO","msg":"state","group":"drill","state":"active","cause":"silence","before":"backup"}`), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	if !ok || ev.Source != "vip/a2" || ev.Message != "the agent is active, was backup: silence" {
		t.Errorf("event %+v, %t", ev, ok)
	}
}

func TestLabSpecOfAnAddress(t *testing.T) {
	for name, want := range map[string][2]int{"vip-apiserver-dead": {3, 2}, "vip-node-silent": {4, 0}} {
		spec, err := labSpec(mustCase(t, name, "main"), true, "", "/run/x")
		if err != nil {
			t.Fatal(err)
		}
		if a := spec.Sites[0]; a.Nodes != want[0] || a.APIServers != want[1] || len(spec.Sites) != 2 || len(spec.Links) != 1 {
			t.Errorf("%s: sites %+v, links %+v", name, spec.Sites, spec.Links)
		}
	}
}

func TestPathsOfProbers(t *testing.T) {
	for prober, want := range map[string]string{
		"a/address/udp/datagram/new": "a/address/udp/new", "a/address/echo/echo/reused": "a/address/echo/reused",
		"b/balance/api-get/http/new": "b/balance/api-get/new", "b/main/put/new": "b/main/put/new", "a/control": "a/control", "a/control/pod": "a/control/pod",
	} {
		if got := casePath(prober); got != want {
			t.Errorf("casePath(%q) = %q, want %q", prober, got, want)
		}
	}
}

func TestStandingAgents(t *testing.T) {
	for _, tc := range []struct {
		text string
		want bool
	}{
		{`{"groups":[{"state":"active"}]}`, true},
		{`{"groups":[{"state":"backup","holder":"10.77.1.12"}]}`, true},
		{`{"groups":[{"state":"backup"}]}`, false},
		{`{"groups":[{"state":"backup","holder":"10.77.1.12","fault":"check: apiserver is down"}]}`, false},
		{`{"groups":[{"state":"initialize"}]}`, false},
		{`{"groups":[]}`, false},
	} {
		var s vipStatus
		if err := json.Unmarshal([]byte(tc.text), &s); err != nil || s.stands() != tc.want {
			t.Errorf("%s stands: %t, %v", tc.text, s.stands(), err)
		}
	}
}

package drill

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

func TestAgentsOfARun(t *testing.T) {
	for _, tc := range []struct {
		scenario, variant string
		agents            bool
		want              string
	}{
		{"partial-split", "main", true, "agent:main/a agent:main/b agent:main/c"},
		{"partial-split", "main", false, ""},
		{"partial-split", "kubelet", true, "agent:main/a agent:main/b agent:main/c agent:balance/a agent:balance/b agent:balance/c"},
		{"partial-split", "kubelet", false, "agent:balance/a agent:balance/b agent:balance/c"},
		{"balance-killed", "main", true, "agent:balance/a agent:balance/b agent:balance/c"},
		{"orphan-zone", "main", true, "agent:balance/a agent:balance/b agent:balance/c agent:slices/a agent:slices/b agent:slices/c"},
		{"orphan-zone", "main", false, ""},
		{"etcd-headless", "main", true, "agent:etcd-balance/a agent:etcd-balance/b agent:etcd-balance/c"},
	} {
		e := &engine{c: mustCase(t, tc.scenario, tc.variant), agents: tc.agents}
		var words []string
		for _, p := range e.agentProcesses() {
			words = append(words, p.String())
		}
		if got := strings.Join(words, " "); got != tc.want {
			t.Errorf("%s %s %v: %s", tc.scenario, tc.variant, tc.agents, got)
		}
	}
}

func TestBalancerLines(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct{ line, kind, message string }{
		{`{"time":"2030-01-02T03:04:04.5Z","msg":"backend changed","frontend":"kube-apiserver","backend":"10.77.2.11:6443","from":"ready","to":"frozen","reason":"no answer in 900ms"}`,
			record.KindGraded, "10.77.2.11:6443 is frozen, was ready: no answer in 900ms"},
		{`{"time":"2030-01-02T03:04:04.5Z","msg":"connections reset","backend":"10.77.2.11:6443","count":9,"cause":"frozen"}`,
			record.KindReset, "9 connections to 10.77.2.11:6443 reset: frozen"},
		{`{"msg":"backend added"}`, "", ""},
		{`{"msg":"leadership moved"}`, "", ""},
	} {
		ev, ok := parseAgentLine(scenario.Balancer("b"), []byte(tc.line), now)
		if ok != (tc.kind != "") || ev.Kind != tc.kind || ev.Message != tc.message {
			t.Errorf("%s became %+v", tc.line, ev)
		}
		if ok && (ev.Source != "balance/b" || ev.Cluster != "" || !ev.At.Before(now)) {
			t.Errorf("%s became %+v", tc.line, ev)
		}
	}
}

func TestSamplesOfRequestsBelongToTheirPaths(t *testing.T) {
	for name, want := range map[string]string{
		"b/balance/api-put/http/new": "b/balance/api-put/new", "b/main/put/new": "b/main/put/new", "b/control": "b/control", "a/gateway/web/http/new": "a/gateway/web/new",
	} {
		if got := casePath(name); got != want {
			t.Errorf("%s belongs to %s, want %s", name, got, want)
		}
	}
}

func TestUnreadyIsAFaultOfItsOwn(t *testing.T) {
	c := mustCase(t, "balance-unready", "main")
	a := timetable(c.Faults, c.Phases.Hold)[0]
	links, sites := a.struck(c)
	if a.kind() != "unready" || a.detail() != "take the etcd member from apiserver/b" || len(links) != 0 || len(sites) != 1 || sites[0] != "b" {
		t.Errorf("kind %s, detail %s, links %v, sites %v", a.kind(), a.detail(), links, sites)
	}
}

// A fault on an apiserver that does not run is none.
func TestFaultOnAPIServerThatDoesNotRun(t *testing.T) {
	e := &engine{c: mustCase(t, "balance-killed", "main"), apiservers: map[string]*lab.APIServer{"b": {}}}
	err := e.strike(t.Context(), action{step: scenario.Step{Kill: []string{"apiserver/b"}}})
	if err == nil || !strings.Contains(err.Error(), "apiserver/b: does not run") {
		t.Errorf("kill: %v", err)
	}
}

func TestLabSpecHasAPIServers(t *testing.T) {
	spec, err := labSpec(mustCase(t, "balance-unready", "quick"), true, "", "/run/x")
	if err != nil || !spec.APIServers || spec.APIServer.EtcdCheck != 250*time.Millisecond {
		t.Errorf("spec %+v, %v", spec, err)
	}
}

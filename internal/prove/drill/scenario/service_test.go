package scenario

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

const serviceScenario = `version: 1
name: service
title: x
lab: {preset: lan, sites: [{name: a}, {name: b}]}
kubernetes: true
agents: none
service: {pods: [a, b, b], traffic: same-zone, readiness: {period: 2s, failures: 2}, without: {traffic: local, readiness: {kind: tcp}}}
faults: [{name: web, freeze: [web-b-2]}]
paths: [{targets: [clusterip], kinds: [web], modes: [new, reused], interval: 200ms, timeout: 1s}]
expect: [{role: affected, sites: [b], window: service-hung, without: any}, {role: clean}]
variants: [{name: main, leaders: {main: a}}]
`

func serviceCase(t *testing.T, is, becomes string) *Case {
	t.Helper()
	s, err := Parse("service.yaml", []byte(strings.Replace(serviceScenario, is, becomes, 1)))
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Case("main")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What the run without leaves out is as in the other one.
func TestServiceIn(t *testing.T) {
	c := serviceCase(t, "", "")
	with, without := c.ServiceIn(true), c.ServiceIn(false)
	if want := (Readiness{ProbeHTTP, 2 * time.Second, time.Second, 2}); with.Readiness != want {
		t.Errorf("with: %+v, want %+v", with.Readiness, want)
	}
	if want := (Readiness{ProbeTCP, 2 * time.Second, time.Second, 2}); without.Readiness != want {
		t.Errorf("without: %+v, want %+v", without.Readiness, want)
	}
	if with.Traffic != TrafficSameZone || without.Traffic != TrafficLocal {
		t.Errorf("traffic %s and %s", with.Traffic, without.Traffic)
	}
	want := []ServicePod{{"web-a-1", "a"}, {"web-b-1", "b"}, {"web-b-2", "b"}}
	if got := without.List(); !reflect.DeepEqual(got, want) {
		t.Errorf("pods %v, want %v", got, want)
	}
	if got := c.SiteOfPod("web-b-2"); got != "b" {
		t.Errorf("web-b-2 stands in %q", got)
	}
}

func TestWindowsOfPods(t *testing.T) {
	for _, tc := range []struct {
		is, becomes, path, window string
		min, max                  time.Duration
	}{
		// Two probes of 2 s and a timeout, endpoints, kube-proxy, sampling, margin.
		{"", "", "b/clusterip/web/new", "service-hung", 0, 8700 * time.Millisecond},
		{"pods: [a, b, b]", "pods: [a, b]", "b/clusterip/web/new", "service-hung", 3 * time.Second, 8700 * time.Millisecond},
		{"", "", "b/clusterip/web/reused", "service-hung", 0, 10 * time.Second},
		{"", "", "b/clusterip/web/new", "service-deleted", 0, 3700 * time.Millisecond},
	} {
		text := strings.Replace(serviceScenario, "web-b-2", "web-b-1", 1)
		s, err := Parse("service.yaml", []byte(strings.Replace(text, tc.is, tc.becomes, 1)))
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Case("main")
		if err != nil {
			t.Fatal(err)
		}
		w, err := c.WindowOf(pathNamed(t, c, tc.path), tc.window)
		if err != nil || w.Min != tc.min || w.Max != tc.max {
			t.Errorf("%s of %s: %s to %s (%v), want %s to %s", tc.window, tc.path, w.Min, w.Max, err, tc.min, tc.max)
		}
	}
}

func TestMistakesOfServices(t *testing.T) {
	for _, tc := range []struct{ is, becomes, want string }{
		{"pods: [a, b, b]", "pods: [a, x]", `service.pods[1]: "x" is unknown; choose one of a, b`},
		{"traffic: same-zone", "traffic: near", `service.traffic: "near" is unknown; choose one of cluster, same-zone, local`},
		{"kind: tcp", "kind: exec", `service.without.readiness.kind: "exec" is unknown; choose one of http, tcp`},
		{"period: 2s", "period: 1500ms", "service.readiness.period: 1.5s; the kubelet takes whole seconds, choose 1s to 1m"},
		{"failures: 2", "failures: 11", "service.readiness.failures: 11 is out of range; choose 1 to 10"},
		{"web-b-2", "web-b-3", `freeze: "web-b-3" is unknown; choose one of web-a-1, web-b-1, web-b-2`},
		{"without: {traffic: local", "without: {pods: [a, b], traffic: local", `freeze: "web-b-2" is unknown; choose one of web-a-1, web-b-1`},
		{"kinds: [web]", "kinds: [put]", "the Service serves no put; write kinds: [web]"},
		{"kubernetes: true\n", "", "service: there are no pods to stand behind it; add kubernetes: true"},
	} {
		text := strings.Replace(serviceScenario, tc.is, tc.becomes, 1)
		if _, err := Parse("service.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s → %s: %v, want %q", tc.is, tc.becomes, err, tc.want)
		}
	}
}

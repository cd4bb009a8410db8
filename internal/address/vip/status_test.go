package vip

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func aStatus() Status {
	since := time.Now().Add(-90 * time.Second)
	return Status{Version: StatusVersion, Groups: []GroupStatus{
		{Name: "api", Interface: "eth0", Addresses: []string{"192.0.2.100", "2001:db8::100"}, Mode: "vrrp", State: stateActive, Cause: "silence", Since: since,
			Holder: "192.0.2.1", Priority: 200, Checks: []CheckStatus{{Name: "a", State: "ready"}, {Name: "b", State: "refused"}}, Rivals: 2, Sent: 7, LeftMS: 250,
			Rejected: map[string]uint64{"ttl": 3}, Notes: map[string]uint64{"inferior": 1}},
		{Name: "dns", Interface: "eth1", Addresses: []string{"192.0.2.101"}, Mode: "lease", State: stateBackup, Cause: "start", Since: since, Fault: "interface: eth1 is down", LeaseAgeMS: 500},
	}, BGP: []PeerStatus{
		{Address: "198.51.100.1", AS: 65001, State: "established", Since: since, Announced: 2, Ups: 3, Losses: map[string]uint64{"bfd": 1, "hold": 1}},
		{Address: "198.51.100.2", AS: 65001, State: "connect", Since: since, Cause: "nothing listens on the peer's port; start its bgpd, or correct address and port", Kind: "no-port"},
	}, BFD: []PathStatus{
		{Peer: "198.51.100.1", State: "Up", Remote: "Up", Since: since, DetectionMS: 300, Ups: 2, Failures: 1, Dropped: map[string]uint64{"ttl": 4}},
		{Peer: "fe80::1", Interface: "eth1", State: "Down", Remote: "Down", Since: since, Cause: "control detection time expired"},
	}, Lateness: &LatenessStatus{Count: 5, MaxMS: 40}, Route: &TableStatus{Number: 198, Routes: 2, Mended: 1}}
}

func TestStatusTable(t *testing.T) {
	var out strings.Builder
	if err := aStatus().print(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "status.txt", out.String())
	if err := aStatus().verdict(); err == nil || err.Error() != "group dns: interface: eth1 is down" {
		t.Errorf("verdict: %v", err)
	}
	s := aStatus()
	s.Groups, s.BGP, s.Route.Trouble = nil, s.BGP[1:], "find interface dummy0: Link not found"
	want := "bgp: no session is up; 198.51.100.2: nothing listens on the peer's port; start its bgpd, or correct address and port\nroute: find interface dummy0: Link not found"
	if err := s.verdict(); err == nil || err.Error() != want {
		t.Errorf("verdict: %v", err)
	}
}

func TestMetrics(t *testing.T) {
	m := newMetrics()
	m.status = aStatus
	m.moved("api", stateActive, "silence")
	r := prometheus.NewRegistry()
	m.register(r)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, f := range families {
		for _, v := range f.GetMetric() {
			var labels []string
			for _, l := range v.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			fmt.Fprintf(&got, "%s{%s} %g\n", f.GetName(), strings.Join(labels, ","), v.GetGauge().GetValue()+v.GetCounter().GetValue())
		}
	}
	golden(t, "metrics.txt", got.String())
}

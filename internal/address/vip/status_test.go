package vip

import (
	"fmt"
	"slices"
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
	}}
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
}

func TestMetrics(t *testing.T) {
	m := newMetrics()
	m.status = aStatus
	m.moved("api", stateActive, "silence")
	want := `holdfast_vip_fault api 0
holdfast_vip_fault dns 1
holdfast_vip_gate_left_seconds api 0.25
holdfast_vip_gate_left_seconds dns 0
holdfast_vip_holder api 1
holdfast_vip_holder dns 0
holdfast_vip_lease_age_seconds dns 0.5
`
	names := []string{"holdfast_vip_holder", "holdfast_vip_fault", "holdfast_vip_gate_left_seconds", "holdfast_vip_lease_age_seconds"}
	r := prometheus.NewRegistry()
	m.register(r)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, f := range families {
		if slices.Contains(names, f.GetName()) {
			for _, v := range f.GetMetric() {
				fmt.Fprintf(&got, "%s %s %g\n", f.GetName(), v.GetLabel()[0].GetValue(), v.GetGauge().GetValue())
			}
		}
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

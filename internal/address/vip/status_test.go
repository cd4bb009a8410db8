package vip

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
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
	want := `
# HELP holdfast_vip_fault 1 while this machine cannot serve the group.
# TYPE holdfast_vip_fault gauge
holdfast_vip_fault{group="api"} 0
holdfast_vip_fault{group="dns"} 1
# HELP holdfast_vip_gate_left_seconds For how long the addresses answer unless that is renewed.
# TYPE holdfast_vip_gate_left_seconds gauge
holdfast_vip_gate_left_seconds{group="api"} 0.25
holdfast_vip_gate_left_seconds{group="dns"} 0
# HELP holdfast_vip_holder 1 while this machine answers for the group.
# TYPE holdfast_vip_holder gauge
holdfast_vip_holder{group="api"} 1
holdfast_vip_holder{group="dns"} 0
# HELP holdfast_vip_lease_age_seconds For how long the record has been seen as it is.
# TYPE holdfast_vip_lease_age_seconds gauge
holdfast_vip_lease_age_seconds{group="dns"} 0.5
`
	names := []string{"holdfast_vip_holder", "holdfast_vip_fault", "holdfast_vip_gate_left_seconds", "holdfast_vip_lease_age_seconds"}
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

package vip

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-ha/holdfast/internal/address/services"
)

// Each mistake about Services is one line that names field, value and remedy.
func TestServicesMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"services: {}":                   "services.pools: none; write at least one",
		"services: {pools: [{name: a}]}": "services.pool a: addresses: none; write ranges",
		"services: {pools: [{name: A, addresses: [192.0.2.1]}]}":                                       `services.pools[0].name: "A"; write a name of small letters`,
		"services: {pools: [{name: a, addresses: [192.0.2.9-192.0.2.1]}]}":                             `services.pools[0].addresses[0]: "192.0.2.9-192.0.2.1" ends before it begins`,
		"services: {pools: [{name: a, addresses: [192.0.2.0/24]}, {name: b, addresses: [192.0.2.7]}]}": "services.pool b: addresses: 192.0.2.7 and 192.0.2.0-192.0.2.255 of pool a have addresses in common",
		"services: {pools: [{name: a, addresses: [192.0.2.1], announce: [garp]}]}":                     `services.pools[0].announce[0]: "garp"`,
		"services: {pools: [{name: a, addresses: [192.0.2.1]}], lease: {policy: hold}}":                `services.lease.policy "hold": want keep or drop`,
		"services: {pools: [{name: a, addresses: [192.0.2.1]}], lease: {duration: 1ms}}":               "services.lease.duration 1ms: want",
		"services: {pools: [{name: a, addresses: [192.0.2.1]}], lease: {listen: '0.0.0.0:9390'}}":      `services.lease.listen: "0.0.0.0:9390"; write ADDRESS:PORT`,
		"services: {pools: [{name: a, addresses: [192.0.2.1]}], kubernetes: {servers: [x]}}":           `services.kubernetes.servers[0]: "x" is not a URL`,
		"services: {pools: [{name: a, addresses: [192.0.2.1]}], health: [{kind: ping}]}":               `services.health[0].kind: "ping"`,
	} {
		_, err := decode(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// The command line alone is enough, and comes on top of a file.
func TestServicesFlags(t *testing.T) {
	s := defaultSettings()
	s.services = servicesFlags{on: true, pool: []string{"192.0.2.1-192.0.2.9"}, node: "n1", iface: "eth1", kubeconfig: "/k"}
	if err := s.complete(); err != nil {
		t.Fatal(err)
	}
	v := s.Services
	if v.Node != "n1" || v.Interface != "eth1" || v.Kubernetes.Kubeconfig != "/k" || v.Kubernetes.Namespace != "kube-system" || len(v.Pools) != 1 || !v.Pools[0].pool.Auto {
		t.Errorf("%+v", v)
	}
	if s, err := decode(t, "groups: [{name: api, addresses: [192.0.2.100], vrrp: {vrid: 51}}]"); err != nil || s.Services != nil {
		t.Errorf("Services without being asked for: %+v, %v", s.Services, err)
	}
}

func TestListenAt(t *testing.T) {
	s, err := decode(t, "services: {interface: eth0, pools: [{name: a, addresses: [192.0.2.200-192.0.2.220]}]}")
	if err != nil {
		t.Fatal(err)
	}
	prefixes := func(all ...string) (own []netip.Prefix) {
		for _, p := range all {
			own = append(own, netip.MustParsePrefix(p))
		}
		return own
	}
	for _, c := range []struct {
		own  []netip.Prefix
		want string
	}{
		{prefixes("fe80::1/64", "2001:db8::5/64", "192.0.2.200/32", "192.0.2.5/24"), "192.0.2.5:9390"},
		{prefixes("fe80::1/64", "2001:db8::5/64"), "[2001:db8::5]:9390"},
		{prefixes("fe80::1/64"), ""},
	} {
		at, err := s.Services.listenAt(c.own)
		if c.want == "" && (err == nil || !strings.Contains(err.Error(), "services.lease.listen")) || c.want != "" && at.String() != c.want {
			t.Errorf("%v: %v, %v", c.own, at, err)
		}
	}
}

// TestRank has addresses spread over the machines, and each machine know its place.
func TestRank(t *testing.T) {
	nodes := []string{"n1", "n2", "n3"}
	first := map[string]int{}
	for i := range 300 {
		a := netip.AddrFrom4([4]byte{192, 0, byte(i / 250), byte(i % 250)})
		seen := map[int]bool{}
		for _, n := range nodes {
			r := rank(n, a, nodes)
			seen[r] = true
			if r == 0 {
				first[n]++
			}
		}
		if len(seen) != 3 {
			t.Fatalf("%s: places %v", a, seen)
		}
	}
	for _, n := range nodes {
		if first[n] < 60 || first[n] > 140 {
			t.Errorf("%s is first for %d of 300", n, first[n])
		}
	}
}

func aServicesStatus() *ServicesStatus {
	since := time.Now().Add(-90 * time.Second)
	return &ServicesStatus{
		Status: services.Status{
			Allocator: "n1", Acting: true, Pools: []services.Use{{Name: "default", Size: 21, Used: 2}, {Name: "six", Size: 1<<64 - 1}},
			Pending:  []services.Pending{{Service: services.Key{Namespace: "default", Name: "bad"}, Reason: services.ReasonMalformed, Message: "annotation holdfast.dev/addresses: …"}},
			Troubles: []string{"events: 403 Forbidden"},
		},
		Addresses: []ServiceStatus{
			{Address: "192.0.2.200", Pool: "default", Services: []services.Key{{Namespace: "default", Name: "web"}, {Namespace: "shop", Name: "api"}}, Policy: "Cluster", State: stateActive, Cause: "free", Since: since, Holder: "n1", Sent: 12},
			{Address: "192.0.2.201", Pool: "default", Services: []services.Key{{Namespace: "default", Name: "mail"}}, Policy: "Local", State: stateBackup, Cause: "start", Since: since, Holder: "n2", Bar: "endpoint: no ready endpoint of default/mail on this machine"},
		},
	}
}

func TestServicesStatusTable(t *testing.T) {
	var out strings.Builder
	s := Status{Version: StatusVersion, Services: aServicesStatus()}
	if err := s.print(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "status-services.txt", out.String())
	if err := s.verdict(); err != nil {
		t.Errorf("verdict: %v", err)
	}
	// What an agent says, the command understands.
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var heard Status
	if err := json.Unmarshal(data, &heard); err != nil || heard.Services.Pending[0].Service != s.Services.Pending[0].Service || len(heard.Services.Addresses[0].Services) != 2 {
		t.Errorf("%s is read as %+v: %v", data, heard.Services, err)
	}
	s.Services.Faults = "interface: eth0 is down"
	if err := s.verdict(); err == nil {
		t.Error("a machine that answers for no Service is well")
	}
}

func TestServicesMetrics(t *testing.T) {
	m := newMetrics()
	m.status = func() Status { return Status{Services: aServicesStatus()} }
	r := prometheus.NewRegistry()
	m.register(r)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, f := range families {
		for _, v := range f.GetMetric() {
			fmt.Fprint(&got, strings.TrimPrefix(f.GetName(), "holdfast_vip_"))
			for _, l := range v.GetLabel() {
				fmt.Fprint(&got, " ", l.GetValue())
			}
			fmt.Fprintf(&got, " %g\n", v.GetGauge().GetValue()+v.GetCounter().GetValue())
		}
	}
	golden(t, "metrics-services.txt", got.String())
}

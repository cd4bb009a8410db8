package zonal

import (
	"strings"
	"testing"

	core "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/access/datapath"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

func TestWarnings(t *testing.T) {
	closeBy, sameZone, local := "PreferClose", "PreferSameZone", core.ServiceInternalTrafficPolicyLocal
	cilium := datapath.Datapath{Kind: datapath.Cilium, Major: 1, Minor: 19, Server: kubeapi.ServerVersion{Major: 1, Minor: 35}}
	everywhere := zones{ready: map[string]int{"a": 1, "b": 2}, workers: []string{"a", "b"}}
	for _, c := range []struct {
		name string
		spec core.ServiceSpec
		z    zones
		want []string
	}{
		{"well", core.ServiceSpec{TrafficDistribution: &closeBy}, everywhere, nil},
		{"zones not known", core.ServiceSpec{TrafficDistribution: &closeBy}, zones{}, nil},
		{"not set", core.ServiceSpec{}, everywhere, []string{"trafficDistribution is not set"}},
		{"not understood", core.ServiceSpec{TrafficDistribution: &sameZone}, everywhere, []string{"cilium 1.19 ignores it; set PreferClose"}},
		{"local", core.ServiceSpec{TrafficDistribution: &closeBy, InternalTrafficPolicy: &local}, everywhere, []string{"internalTrafficPolicy Local"}},
		{"sticky", core.ServiceSpec{TrafficDistribution: &closeBy, SessionAffinity: core.ServiceAffinityClientIP}, everywhere, []string{"sessionAffinity ClientIP"}},
		{"no endpoint", core.ServiceSpec{TrafficDistribution: &closeBy}, zones{ready: map[string]int{"a": 0}, workers: []string{"a"}}, []string{"no ready endpoint"}},
		{"a zone without", core.ServiceSpec{TrafficDistribution: &closeBy}, zones{ready: map[string]int{"a": 1}, workers: []string{"", "a", "b", "c"}}, []string{"no ready endpoint in zone b, c: "}},
		{"no zone", core.ServiceSpec{TrafficDistribution: &closeBy}, zones{ready: map[string]int{"": 1, "a": 1}, workers: []string{"a"}}, []string{"1 of 2 ready endpoints have no zone"}},
	} {
		got := warnings(&Service{Spec: c.spec}, cilium, c.z)
		if len(got) != len(c.want) {
			t.Errorf("%s: %q", c.name, got)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: %q, want %q", c.name, got[i], want)
			}
		}
	}
}

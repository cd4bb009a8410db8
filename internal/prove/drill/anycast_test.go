package drill

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/frr"
)

func TestFRRScriptGolden(t *testing.T) {
	s := frrScript{
		dir: "frr-a2", address: "203.0.113.10",
		config: frr.Config{
			AS: machineAS, RouterID: netip.MustParseAddr("10.77.1.12"), Hold: 30 * time.Second, Announces: true,
			Neighbors: []frr.Neighbor{{Address: netip.MustParseAddr("10.77.1.1"), AS: routerAS}},
		},
	}
	golden(t, "frr.sh", []byte(s.text()))
	s.check, s.credentials = "https://127.0.0.1:6443/readyz", "--cacert ca.crt --cert c.crt --key c.key"
	golden(t, "frr-check.sh", []byte(s.text()))
}

// TestIngressDeployment: what is sent is what is meant, key by key.
func TestIngressDeployment(t *testing.T) {
	var d appsv1.Deployment
	in := json.NewDecoder(strings.NewReader(ingressDeployment([]string{"a2", "a3"})))
	in.DisallowUnknownFields()
	if err := in.Decode(&d); err != nil {
		t.Fatal(err)
	}
	pod := d.Spec.Template.Spec
	where := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Values
	if *d.Spec.Replicas != 2 || !slices.Equal(where, []string{"a2", "a3"}) || len(pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) != 1 ||
		*pod.TerminationGracePeriodSeconds != 10 || pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds != 5 {
		t.Errorf("it says %+v", d)
	}
}

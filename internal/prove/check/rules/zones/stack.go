package zones

import (
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/stack"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Stack lists what takes a dead apiserver out of the Service default/kubernetes.
func Stack(f *fact.Facts) []stack.Path {
	for _, c := range f.Components("kube-apiserver") {
		if reconciler(c) == "lease" {
			return []stack.Path{{
				Fault: "losing an apiserver", Client: "new connections of pods by the ClusterIP of default/kubernetes",
				Detectors: []stack.Detector{{
					Name: "kube-apiserver: lease reconciler of the endpoints", Set: "no flag changes its 15s and 10s",
					Window: scenario.EndpointLease(), At: c.FlagAt(reconcilerFlag),
				}},
			}}
		}
	}
	return nil
}

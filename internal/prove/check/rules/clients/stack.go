package clients

import (
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/stack"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Stack lists how a client notices by itself that its connection is dead: the last
// detector of all paths. It is client-go's, of which every component is made.
func Stack(f *fact.Facts) []stack.Path {
	apiservers := f.Components("kube-apiserver")
	if len(apiservers) == 0 {
		return nil
	}
	return []stack.Path{{
		Fault: "an apiserver or a machine that falls silent", Client: "kubelets and controllers that are connected to it",
		Detectors: []stack.Detector{{
			Name: "client-go: ping of HTTP/2", Set: "idle 30s, answer within 15s, its defaults",
			Window: scenario.Pinged(scenario.HTTP2Idle, scenario.HTTP2Ping), At: apiservers[0].At,
		}},
	}}
}

package e2e

import (
	"fmt"
	stdslices "slices"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// TestVIPServicesBGP has FRR learn of Services: from every machine, or with policy
// Local from those with a ready endpoint.
func TestVIPServicesBGP(t *testing.T) {
	nightly(t)
	r, o := newEdge(t, 3, 0, spread), newObjects()
	kubeconfig := r.wire.serve(o)
	r.route()
	for i := 1; i <= 3; i++ {
		r.launchWith(i, fmt.Sprintf(`services:
  kubernetes: {kubeconfig: %s}
  node: node-%d
  interface: %s
  pools: [{name: routed, addresses: [%s-203.0.113.20], announce: [bgp]}]
%s`, kubeconfig, i, segment.Interface, spread, r.toRouter("")))
	}
	for i := 1; i <= 3; i++ {
		r.awaitSession(i, 20*time.Second)
	}
	o.put(wireServices+"web", exposed("web", "Cluster", nil))
	r.awaitHops(1, 2, 3)
	o.put(wireSlices+"web-1", endpointsOn("web", 1, 2))
	o.put(wireServices+"web", exposed("web", "Local", nil))
	r.awaitHops(1, 2)
	begun := time.Now()
	o.put(wireSlices+"web-1", endpointsOn("web", 2, 3))
	r.awaitHops(2, 3)
	t.Logf("next hops follow the endpoints after %s", time.Since(begun).Round(time.Millisecond))

	// The API is gone: nothing is withdrawn.
	o.silence(true)
	r.await("the agents know that the API is gone", 20*time.Second, func() bool {
		s := r.servicesStatus(2)
		return s != nil && len(s.Troubles) > 0
	})
	if got := r.hops(spread); len(got) != 2 {
		t.Errorf("without the API the next hops are %v", got)
	}
	o.silence(false)

	begun = time.Now()
	r.kill(3, syscall.SIGKILL)
	r.awaitHops(2)
	t.Logf("the next hop of a killed agent is gone after %s", time.Since(begun).Round(time.Millisecond))
	r.stop(2)
	r.awaitHops()
	r.await("the API tells of the end", 30*time.Second, func() bool {
		s := r.servicesStatus(1)
		return s != nil && len(s.Troubles) == 0
	})
	o.put(wireSlices+"web-1", endpointsOn("web", 1))
	r.awaitHops(1)
	o.remove(wireServices + "web")
	r.awaitHops()
}

// awaitHops waits until the router's next hops are these machines.
func (r *edge) awaitHops(machines ...int) {
	r.t.Helper()
	want := []string{}
	for _, i := range machines {
		want = append(want, r.segment.Station(i).Four.String())
	}
	r.await(fmt.Sprintf("the router's next hops are machines %v", machines), 20*time.Second, func() bool {
		got := append([]string{}, r.hops(spread)...)
		stdslices.Sort(got)
		return stdslices.Equal(got, want)
	})
}

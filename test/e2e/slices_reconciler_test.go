package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
)

// besideReconciler begins beside the apiservers' reconciler, takes over from it
// and hands back to it.
func besideReconciler(t *testing.T) {
	z := startZoned(t, "lease")
	z.onlooker = z.watch("c")
	for _, site := range sites {
		z.run(site)
	}
	z.step("beside the reconciler", func() {
		z.await("own slices", "a", 30*time.Second, calm)
		for _, site := range sites {
			z.awaitProblem(site, "reconciler-active", true, 60*time.Second)
		}
	})
	z.step("takes over", z.takesOver)
	z.step("slices are deleted and changed by hand", z.meddled)
	z.step("hands back", z.handsBack)
}

// reconcile restarts the apiservers with another reconciler, two at once: one is
// always there to be asked.
func (z *zoned) reconcile(kind string) {
	z.t.Helper()
	z.onlooker.move("c")
	z.restart(kind, "a", "b")
	z.onlooker.move("a")
	z.restart(kind, "c")
}

// takesOver switches the reconcilers off.
func (z *zoned) takesOver() {
	emptied := z.byName()
	z.reconcile("none")
	for _, site := range sites {
		z.until("agent "+site+" has seen the takeover", 3*time.Minute, func() error {
			s, err := z.status(site)
			if err == nil && (!s.Taken || len(s.Combined) != len(sites) || len(s.Problems) > 0) {
				err = fmt.Errorf("taken over: %t, %v, %+v", s.Taken, s.Combined, s.Problems)
			}
			return err
		})
	}
	z.awaitOlder("the older Endpoints are kept", "a", 10*time.Second, sites...)
	for path, d := range emptied() {
		z.t.Logf("%s was empty for %s", path, d.Round(10*time.Millisecond))
		if d > mostEmpty {
			z.t.Errorf("%s was empty for %s, want at most %s", path, d, mostEmpty)
		}
	}
	all, err := z.slices("a")
	if err != nil {
		z.t.Fatal(err)
	}
	joint := all["kubernetes"]
	if _, there := joint.Labels[discovery.LabelServiceName]; there || joint.Labels["service.kubernetes.io/service-proxy-name"] == "" {
		z.t.Errorf("the slice kubernetes is no secret from datapaths: %v", joint.Labels)
	}
	z.onlooker.demandZones(true)
}

// meddled deletes and spoils what agents wrote.
func (z *zoned) meddled() {
	const base = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/"
	if err := z.ask("a", http.MethodDelete, base+z.sliceName("a"), nil, nil); err != nil {
		z.t.Fatal(err)
	}
	z.await("the deleted slice is back", "a", 10*time.Second, calm)
	// Without this label nobody lists it any more.
	unlabel := map[string]any{"metadata": map[string]any{"labels": map[string]any{discovery.LabelServiceName: nil}}}
	if err := z.ask("a", http.MethodPatch, base+z.sliceName("b"), unlabel, nil); err != nil {
		z.t.Fatal(err)
	}
	z.until("the label is back", 10*time.Second, func() error {
		all, err := z.slices("a")
		if err == nil && all[z.sliceName("b")].Labels[discovery.LabelServiceName] == "" {
			err = errors.New("it is not")
		}
		return err
	})
	if err := z.ask("a", http.MethodDelete, base+"kubernetes", nil, nil); err != nil {
		z.t.Fatal(err)
	}
	z.until("the slice kubernetes is back", 10*time.Second, func() error {
		all, err := z.slices("a")
		if err == nil && len(all["kubernetes"].Endpoints) != len(sites) {
			err = errors.New("it is not")
		}
		return err
	})
	z.forgetOlder()
	if err := z.ask("a", http.MethodDelete, "/api/v1/namespaces/default/services/kubernetes", nil, nil); err != nil {
		z.t.Fatal(err)
	}
	z.until("the Service is back, with trafficDistribution", 30*time.Second, func() error {
		var service core.Service
		err := z.ask("a", http.MethodGet, "/api/v1/namespaces/default/services/kubernetes", nil, &service)
		if err == nil && service.Spec.TrafficDistribution == nil {
			err = errors.New("without")
		}
		return err
	})
}

// handsBack gives everything back to the reconciler.
func (z *zoned) handsBack() {
	if said, err := z.byHand("a", "handback", "--all"); err == nil || !strings.Contains(said, "no apiserver writes EndpointSlice default/kubernetes") {
		z.t.Errorf("handed back to nobody: %v: %s", err, said)
	}
	z.onlooker.demandZones(false) // the reconciler knows no zones
	z.reconcile("lease")
	z.awaitProblem("a", "reconciler-active", true, 60*time.Second)
	if said, err := z.byHand("a", "handback", "--all"); err == nil || !strings.Contains(said, "still renews its Lease") {
		z.t.Errorf("handed back beside running agents: %v: %s", err, said)
	}
	z.endAgents(sites...)
	said, err := z.byHand("a", "handback", "--all")
	if err != nil || !strings.Contains(said, "trafficDistribution of Service default/kubernetes is none again") {
		z.t.Errorf("handback: %v: %s", err, said)
	}
	all, err := z.slices("a")
	if err != nil || len(all) != 1 || len(all["kubernetes"].Endpoints) == 0 {
		z.t.Errorf("left: %v, %v", all, err)
	}
	var service core.Service
	if err := z.ask("a", http.MethodGet, "/api/v1/namespaces/default/services/kubernetes", nil, &service); err != nil || service.Spec.TrafficDistribution != nil {
		z.t.Errorf("trafficDistribution: %v, %v", service.Spec.TrafficDistribution, err)
	}
	z.awaitOlder("the older Endpoints are the apiservers' again", "a", 20*time.Second, sites...)
}

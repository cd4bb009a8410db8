package slices

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// own stores the Lease of the own node with that holder, and does not show it.
func (r *rig) own(holder string) coordination.Lease {
	l := coordination.Lease{}
	l.Name, l.Namespace = leaseName("cp1"), leaseNamespace
	l.Labels = map[string]string{labelManaged: plan.ManagedBy, "kubernetes.io/hostname": "cp1"}
	l.Spec.HolderIdentity = &holder
	return put(r.t, r.api, leasesPath+"/"+l.Name, l)
}

func (r *rig) holds() string {
	r.api.mu.Lock()
	defer r.api.mu.Unlock()
	o, _ := r.api.objects[leasesPath+"/"+leaseName("cp1")]["spec"].(map[string]any)
	holder, _ := o["holderIdentity"].(string)
	return holder
}

// The first write of a namesake that has not heard of the other's Lease, or not
// lately, must not take it: the other one, who was there before, would give way.
func TestLeaseIsNeverTakenBlindly(t *testing.T) {
	t.Run("not listed yet", func(t *testing.T) {
		r := newRig(t)
		r.begin()
		r.own("cp1_elder")
		if err := r.renew(t.Context()); !errors.Is(err, errTaken) || r.holds() != "cp1_elder" {
			t.Errorf("%v, held by %s", err, r.holds())
		}
	})
	t.Run("an old list", func(t *testing.T) {
		r := newRig(t)
		r.begin()
		mine := r.own(r.holder)
		r.world.replaceLeases([]coordination.Lease{mine})
		r.own("cp1_elder")
		if err := r.renew(t.Context()); !errors.Is(err, errTaken) || r.holds() != "cp1_elder" {
			t.Errorf("%v, held by %s", err, r.holds())
		}
		r.leave()
		if r.holds() != "cp1_elder" {
			t.Error("left for another one")
		}
	})
	t.Run("its own, with a watch that lags", func(t *testing.T) {
		r := newRig(t)
		r.begin()
		r.world.replaceLeases([]coordination.Lease{r.own(r.holder)})
		for range 3 {
			if err := r.renew(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := r.api.count("PATCH " + leasesPath + "/" + leaseName("cp1")); n != 3 {
			t.Errorf("%d requests for 3 renewals", n)
		}
		r.own(r.holder) // written by the same machine, before this agent started
		if err := r.renew(t.Context()); err != nil {
			t.Error(err)
		}
		if r.leave(); r.holds() != "" {
			t.Errorf("left behind: %s", r.holds())
		}
	})
	t.Run("deleted, and then free", func(t *testing.T) {
		r := newRig(t)
		r.begin()
		r.world.replaceLeases([]coordination.Lease{r.own(r.holder)})
		delete(r.api.objects, leasesPath+"/"+leaseName("cp1"))
		if err := r.renew(t.Context()); err != nil || r.holds() != r.holder {
			t.Errorf("%v, held by %q", err, r.holds())
		}
		r.own("")
		if err := r.renew(t.Context()); err != nil || r.holds() != r.holder {
			t.Errorf("%v, held by %q", err, r.holds())
		}
	})
}

// Renewals that fail are no storm.
func TestWaitsOfTheLease(t *testing.T) {
	for failed, want := range map[int]time.Duration{1: 1, 2: 2, 3: 4, 4: 8, 5: 10, 100: 10} {
		if got := signWait(io.EOF, failed); got != want*time.Second {
			t.Errorf("after %d failures: %s", failed, got)
		}
	}
	if got := signWait(&kubeapi.StatusError{Code: http.StatusForbidden}, 1); got != signDenied {
		t.Errorf("denied: %s", got)
	}
	if got := signWait(nil, 0); got > signEvery || got < signEvery*9/10 {
		t.Errorf("renewed: %s", got)
	}
}

// A machine with addresses of both families is the same one after each start.
func TestHolderStays(t *testing.T) {
	first := holderOf("cp1", []string{"10.0.0.1", "fd00::1"})
	if holderOf("cp1", []string{"10.0.0.1"}) != first || holderOf("cp1", []string{"10.0.0.2"}) == first {
		t.Error("the first address does not decide")
	}
	if documentation[0].network != "udp4" {
		t.Error("IPv4 is not the first")
	}
	for range 20 {
		if again := holderOf("cp1", sourceAddresses()); again != holderOf("cp1", sourceAddresses()) {
			t.Fatal("another holder at another time")
		}
	}
}

package slices

import (
	"cmp"
	"maps"
	stdslices "slices"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// signal is a Lease with what plan does not ask of it.
type signal struct {
	plan.Lease
	// host is the label kubernetes.io/hostname.
	host string
	// skew is how far the renewer's clock is from ours, as of the last renewal
	// that arrived as long after the one before as it was made after it; 0 until
	// then. What a watch brings late, or all at once, tells of no clock.
	skew time.Duration
	// arrived is when the last renewal did, on our monotonic clock, and renewed
	// the time that stands in it.
	arrived, renewed time.Time
}

func (w *world) replaceLeases(all []coordination.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[ofLeases] = true
	old := w.leases
	w.leases = map[string]signal{}
	for i := range all {
		if l, ok := leaseOf(&all[i]); ok {
			s := old[l.Name]
			s.Lease, s.host = l, all[i].Labels[core.LabelHostname]
			w.leases[l.Name] = s
		}
	}
}

func (w *world) applyLease(deleted bool, o *coordination.Lease) {
	l, ok := leaseOf(o)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if deleted {
		delete(w.leases, l.Name)
		return
	}
	s := w.leases[l.Name]
	s.Lease, s.host = l, o.Labels[core.LabelHostname]
	if o.Spec.RenewTime != nil && l.Holder != "" {
		s.arrive(w.clock(), o.Spec.RenewTime.Time)
	}
	w.leases[l.Name] = s
}

// mostLate is by how much two renewals may come closer, or apart, on their way.
const mostLate = 2 * time.Second

func (s *signal) arrive(now, renewed time.Time) {
	if s.renewed.Equal(renewed) {
		return // something else of the Lease changed
	}
	late := now.Sub(s.arrived) - renewed.Sub(s.renewed)
	if !s.arrived.IsZero() && late.Abs() < mostLate {
		s.skew = now.Round(0).Sub(renewed)
	}
	s.arrived, s.renewed = now, renewed
}

// identityOf finds the identity Lease of the apiserver of a host, under the
// first of the names by which one is found.
func (w *world) identityOf(hosts ...string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, host := range hosts {
		for name, l := range w.leases {
			if l.Role == plan.Identity && l.host == host && host != "" {
				return name
			}
		}
	}
	return ""
}

// lease is the Lease of that name.
func (w *world) lease(name string) (signal, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.leases[name]
	return s, ok
}

// signals are all Leases, by name.
func (w *world) signals() []signal {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := stdslices.Collect(maps.Values(w.leases))
	stdslices.SortFunc(all, func(a, b signal) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

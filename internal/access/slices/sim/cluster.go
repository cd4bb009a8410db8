package sim

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

const (
	// renewal is how often agents and apiservers renew their Leases, jitter by
	// how much later it may be.
	renewal = 10 * time.Second
	jitter  = 400 * time.Millisecond
	// membership is how long an apiserver's reconciler counts without renewal
	// (controlplane, DefaultEndpointReconcilerTTL).
	membership = 15 * time.Second
)

// machine is a control-plane node: its etcd member runs while it is up.
type machine struct {
	up, isolated bool
	serving      bool   // the apiserver runs
	hung         bool   // and answers nobody
	reconciles   bool   // it was started with its own reconciler
	zone         string // the label of its Node; empty is none
}

// masters is what the reconcilers of apiservers know of one another.
type masters struct{ seen [most]time.Duration }

// quorum says that etcd answers to who reaches its majority.
func (w *World) quorum() bool {
	live := 0
	for i := range w.n {
		if m := &w.machines[i]; m.up && !m.isolated {
			live++
		}
	}
	return live > w.n/2
}

// ready says that the apiserver of node i answers /readyz with ok.
func (w *World) ready(i int) bool {
	m := &w.machines[i]
	return m.up && m.serving && !m.hung && !m.isolated && w.quorum()
}

// answered says that the agent of node i reaches some apiserver that works.
func (w *World) answered(i int) bool {
	m := &w.machines[i]
	if !m.up || m.isolated || w.agents[i].cut {
		return false
	}
	for j := range w.n {
		if w.ready(j) {
			return true
		}
	}
	return false
}

func (w *World) renewIdentity(i int) {
	w.after(renewal+w.between(0, jitter), event{kind: evIdentity, a: int8(i)})
	if !w.ready(i) {
		return
	}
	w.store.putLease(firstIdentity+object(i), w.now, plan.Lease{Role: plan.Identity, Name: identities[i], Holder: identities[i]})
	w.spread()
}

// reconcile is what an apiserver does every 10 s unless it was started with
// --endpoint-reconciler-type=none: it lists whoever does so too.
func (w *World) reconcile(i int) {
	w.after(renewal+w.between(0, jitter), event{kind: evReconcile, a: int8(i)})
	if m := &w.machines[i]; !m.reconciles || !w.ready(i) {
		return
	}
	w.masters.seen[i] = w.now + membership
	w.putReconciled()
}

func (w *World) putReconciled() {
	want := plan.Combined{Owner: plan.Reconciler, Family: plan.IPv4}
	var targets []plan.Target
	for j := range w.n {
		if w.masters.seen[j] > w.now {
			want.Members = append(want.Members, plan.Member{Address: addresses[j], Port: 6443, Ready: true})
			targets = append(targets, plan.Target{Address: addresses[j], Port: 6443})
		}
	}
	w.putReconciledObject(targets)
	is := w.store.kubernetes()
	if is != nil && is.Owner == want.Owner && is.Probe == "" && slices.Equal(is.Members, want.Members) {
		return
	}
	before := w.sight()
	w.trace("reconciler writes kubernetes: %d addresses", len(want.Members))
	w.store.putCombined(want)
	w.judgeCommit(before, nil, nil)
	w.spread()
}

// putReconciledObject is the same of the object Endpoints, which comes first.
func (w *World) putReconciledObject(want []plan.Target) {
	if is := w.store.object(); is != nil && !is.Odd && slices.Equal(is.Targets, want) {
		return
	}
	w.store.putEndpoints(plan.Endpoints{Targets: want})
	w.spread()
}

// stopServing ends an apiserver; in an orderly way it takes itself out of the
// reconcilers' list, and the last one empties it.
func (w *World) stopServing(i int, orderly bool) {
	m := &w.machines[i]
	if orderly && m.reconciles && w.ready(i) {
		w.masters.seen[i] = 0
		w.putReconciled()
	}
	m.serving, m.hung = false, false
}

func (w *World) putNodes() {
	var zones []plan.Zone
	for _, z := range zoneNames {
		if n := w.inhabitants(z); n > 0 {
			zones = append(zones, plan.Zone{Name: z, Nodes: n})
		}
	}
	w.store.putNodes(zones)
	w.spread()
}

// inhabitants is how many Nodes a zone has.
func (w *World) inhabitants(zone string) int {
	n := w.workers[zone]
	for i := range w.n {
		if w.machines[i].zone == zone {
			n++
		}
	}
	return n
}

// spread lets every watch that works bring the news some time.
func (w *World) spread() {
	for i := range w.n {
		w.expect(&w.agents[i])
	}
}

// expect schedules a delivery, unless one is on its way that will bring all.
func (w *World) expect(a *agent) {
	if !a.up || a.expecting {
		return
	}
	a.expecting = true
	lag := w.between(time.Millisecond, w.shape.Lag)
	if left := a.frozen - w.now; left > 0 {
		lag += left
	}
	w.after(lag, event{kind: evDeliver, a: int8(a.i), life: a.life})
}

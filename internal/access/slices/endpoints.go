package slices

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	stdslices "slices"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// The older object, named here once: there is no other type for those who read it.
type (
	oldEndpoints = core.Endpoints       //nolint:staticcheck // SA1019: deprecated, and still read
	oldSubset    = core.EndpointSubset  //nolint:staticcheck // SA1019: as above
	oldPort      = core.EndpointPort    //nolint:staticcheck // SA1019: as above
	oldAddress   = core.EndpointAddress //nolint:staticcheck // SA1019: as above
)

// endpointsOf reads the object Endpoints default/kubernetes.
func endpointsOf(o *oldEndpoints) *plan.Endpoints {
	out := plan.Endpoints{Version: o.ResourceVersion, Odd: o.Labels[discovery.LabelSkipMirror] != "true"}
	for i := range o.Subsets {
		s := &o.Subsets[i]
		if !usualPorts(s.Ports) || len(s.NotReadyAddresses) > 0 {
			out.Odd = true
			continue
		}
		for _, a := range s.Addresses {
			out.Targets = append(out.Targets, plan.Target{Address: a.IP, Port: s.Ports[0].Port})
		}
	}
	stdslices.SortFunc(out.Targets, func(a, b plan.Target) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Address, b.Address))
	})
	return &out
}

func usualPorts(all []oldPort) bool {
	return len(all) == 1 && all[0].Name == portName && cmp.Or(all[0].Protocol, core.ProtocolTCP) == core.ProtocolTCP
}

// fillEndpoints makes the object what a plan says, but for its version. The
// label keeps kube-controller-manager from mirroring it into a slice, which
// would have no zones.
func fillEndpoints(o *oldEndpoints, e *plan.Endpoints) {
	o.TypeMeta = meta.TypeMeta{APIVersion: "v1", Kind: "Endpoints"}
	o.Namespace, o.Name = plan.Namespace, plan.ServiceName
	label(&o.Labels, discovery.LabelSkipMirror, "true")
	o.Subsets = nil
	for _, t := range e.Targets { // by port
		last := len(o.Subsets) - 1
		if last < 0 || o.Subsets[last].Ports[0].Port != t.Port {
			o.Subsets = append(o.Subsets, oldSubset{Ports: []oldPort{{Name: portName, Port: t.Port, Protocol: core.ProtocolTCP}}})
			last++
		}
		o.Subsets[last].Addresses = append(o.Subsets[last].Addresses, oldAddress{IP: t.Address})
	}
}

// endpoints writes the object Endpoints.
func (a *actor) endpoints(ctx context.Context, client *kubeapi.Client, s *sight, w *plan.Write) error {
	var o oldEndpoints
	if s.endpoints != nil && w.Version() != "" {
		o.ObjectMeta = *s.endpoints.ObjectMeta.DeepCopy()
	}
	fillEndpoints(&o, &w.Endpoints)
	o.ResourceVersion = w.Version()
	data, err := json.Marshal(&o)
	if err != nil {
		return err
	}
	if w.Op == plan.CreateEndpoints {
		data, err = client.Create(ctx, endpointsPath, data)
	} else {
		data, err = client.Put(ctx, endpointsPath+"/"+plan.ServiceName, data)
	}
	if err != nil {
		return err // on a conflict all is read anew
	}
	now, err := readObject[oldEndpoints]("endpoints", data)
	if err == nil {
		a.world.applyEndpoints(false, &now)
	}
	return err
}

// replaceEndpoints takes in what a list has shown.
func (w *world) replaceEndpoints(all []oldEndpoints) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[ofEndpoints] = true
	w.endpoints = nil
	for i := range all {
		all[i].ManagedFields = nil
		w.endpoints = &all[i]
	}
}

// applyEndpoints takes in one change, unless a newer one is known.
func (w *world) applyEndpoints(deleted bool, o *oldEndpoints) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.endpoints != nil && newer(w.endpoints.ResourceVersion, o.ResourceVersion):
	case deleted:
		w.endpoints = nil
	default:
		o.ManagedFields = nil
		w.endpoints = o
	}
}

// readEndpoints reads the object anew. Who may not read it goes on without: the
// right is younger than the others.
func (r *reader) readEndpoints(ctx context.Context) (object *oldEndpoints, known bool, err error) {
	object, err = get[oldEndpoints](ctx, r.client, endpointsPath+"/"+plan.ServiceName)
	if kubeapi.Code(err) == http.StatusForbidden {
		r.world.loseEndpoints()
		return nil, false, nil
	}
	return object, err == nil, err
}

// loseEndpoints forgets the object until a watch shows it again.
func (w *world) loseEndpoints() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[ofEndpoints], w.endpoints = false, nil
}

// setEndpoints puts the object into a sight.
func (s *sight) setEndpoints(o *oldEndpoints, known bool) {
	s.endpoints, s.view.Endpoints, s.view.EndpointsKnown = o, nil, known
	if o != nil {
		s.view.Endpoints = endpointsOf(o)
	}
}

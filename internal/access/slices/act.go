package slices

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// trafficBefore, on the Service, is what trafficDistribution was before we set
// it, for whoever hands back.
const trafficBefore = "holdfast.dev/traffic-distribution-before"

// none is trafficBefore of a Service that had no trafficDistribution.
const none = "none"

// writeTimeout bounds one write. It is longer than any commit that still does
// some good, and shorter than what a person notices.
const writeTimeout = 2500 * time.Millisecond

// actor performs writes.
type actor struct {
	client func() (*kubeapi.Client, error)
	world  *world
}

// perform makes one write, based on the objects of the sight that it was planned
// on. The answer is known to the world when it returns.
func (a *actor) perform(ctx context.Context, s *sight, w *plan.Write) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	client, err := a.client()
	if err != nil {
		return fmt.Errorf("reach the API: %w", err)
	}
	switch w.Op {
	case plan.CreateSlice, plan.CreateCombined:
		return a.create(ctx, client, s, w)
	case plan.UpdateSlice, plan.UpdateCombined:
		return a.update(ctx, client, s, w)
	case plan.DeleteSlice, plan.DeleteCombined:
		return a.remove(ctx, client, w)
	case plan.ProbeCombined:
		return a.patch(ctx, client, w)
	case plan.PatchService:
		return a.prefer(ctx, client, s, w)
	case plan.CreateEndpoints, plan.UpdateEndpoints:
		return a.endpoints(ctx, client, s, w)
	}
	return fmt.Errorf("perform %s: unknown", w.Op)
}

// nameOf is the object that a write is about.
func nameOf(w *plan.Write) string {
	switch w.Op {
	case plan.CreateSlice, plan.UpdateSlice, plan.DeleteSlice:
		return w.Slice.Name
	}
	return plan.ServiceName
}

func pathOf(name string) string { return slicesPath + "/" + url.PathEscape(name) }

// body is the object that a write makes, from the one that it was planned on:
// labels and annotations of others stay.
func body(s *sight, w *plan.Write) ([]byte, error) {
	o := bare(nameOf(w))
	if old := s.raw[o.Name]; old != nil && w.Version() != "" {
		o.ObjectMeta = *old.ObjectMeta.DeepCopy()
	}
	o.ResourceVersion = w.Version()
	switch w.Op {
	case plan.CreateCombined, plan.UpdateCombined:
		fillCombined(&o, &w.Combined)
	default:
		fillSlice(&o, &w.Slice)
	}
	return json.Marshal(&o)
}

func (a *actor) create(ctx context.Context, client *kubeapi.Client, s *sight, w *plan.Write) error {
	data, err := body(s, w)
	if err != nil {
		return err
	}
	data, err = client.Create(ctx, slicesPath, data)
	if kubeapi.Code(err) == http.StatusConflict {
		// There is one that the watches do not show, or not yet.
		if again := a.reread(ctx, client, nameOf(w)); again != nil {
			return again
		}
		return err
	}
	return a.wrote(data, err)
}

// reread shows the world an object that it does not know as it is.
func (a *actor) reread(ctx context.Context, client *kubeapi.Client, name string) error {
	object, err := get[discovery.EndpointSlice](ctx, client, pathOf(name))
	if err == nil && object != nil {
		a.world.learn(object)
	}
	return err
}

func (a *actor) update(ctx context.Context, client *kubeapi.Client, s *sight, w *plan.Write) error {
	data, err := body(s, w)
	if err != nil {
		return err
	}
	data, err = client.Put(ctx, pathOf(nameOf(w)), data)
	if code := kubeapi.Code(err); code == http.StatusConflict || code == http.StatusNotFound {
		if code == http.StatusNotFound {
			a.world.unlearn(nameOf(w), w.Version())
		} else if again := a.reread(ctx, client, nameOf(w)); again != nil {
			return again
		}
	}
	return a.wrote(data, err)
}

// wrote shows the answer of a write to the world.
func (a *actor) wrote(data []byte, err error) error {
	if err != nil {
		return err
	}
	object, err := readObject[discovery.EndpointSlice]("endpointslice", data)
	if err != nil {
		return err
	}
	a.world.learn(&object)
	return nil
}

func (a *actor) remove(ctx context.Context, client *kubeapi.Client, w *plan.Write) error {
	err := client.Delete(ctx, pathOf(nameOf(w)), kubeapi.Preconditions{ResourceVersion: w.Version()})
	if err == nil || kubeapi.Code(err) == http.StatusNotFound {
		a.world.unlearn(nameOf(w), w.Version())
		return nil
	}
	return err
}

// patch puts the probe on the reconciler's slice and changes nothing else.
func (a *actor) patch(ctx context.Context, client *kubeapi.Client, w *plan.Write) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": w.Version(), "labels": map[string]string{plan.ProbeLabel: labelled(w.Combined.Probe)},
	}})
	if err != nil {
		return err
	}
	data, err = client.Patch(ctx, pathOf(plan.ServiceName), data)
	return a.wrote(data, err)
}

// labelled shortens a node's name to what the value of a label may be.
func labelled(name string) string {
	if len(name) <= 63 {
		return name
	}
	return name[:62] + "x"
}

// prefer sets trafficDistribution and remembers what it was, once.
func (a *actor) prefer(ctx context.Context, client *kubeapi.Client, s *sight, w *plan.Write) error {
	metadata := map[string]any{"resourceVersion": w.Version()}
	if s.service != nil && s.service.Annotations[trafficBefore] == "" {
		before := w.Service.Traffic
		if before == "" {
			before = none
		}
		metadata["annotations"] = map[string]string{trafficBefore: before}
	}
	data, err := json.Marshal(map[string]any{
		"metadata": metadata, "spec": map[string]string{"trafficDistribution": w.Traffic},
	})
	if err != nil {
		return err
	}
	data, err = client.Patch(ctx, servicesPath+"/"+plan.ServiceName, data)
	if err != nil {
		return err
	}
	service, err := readObject[core.Service]("service", data)
	if err != nil {
		return err
	}
	a.world.learnService(&service)
	return nil
}

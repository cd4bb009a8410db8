package slices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	stdslices "slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/config"
	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/base/lease"
)

// watchFor is how long a Lease must stand still, and a probe be erased within,
// for a person to be told so: Leases are renewed and the reconciler runs every
// 10 s.
const watchFor = 13 * time.Second

// keeper does by a person's hand what agents never do: it takes slices and
// Leases of nodes away.
type keeper struct {
	out    io.Writer
	world  *world
	client *kubeapi.Client
	actor  *actor
	lock   *lease.Lock
}

// reach says how a person's command reaches the API.
type reach struct {
	kubeconfig, context string
	servers             []string
}

func (r *reach) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "credentials of an administrator (default: $KUBECONFIG)")
	f.StringVar(&r.context, "context", "", "context of the kubeconfig")
	f.StringSliceVar(&r.servers, "server", nil, "URLs of the API (default: that of the kubeconfig)")
}

func (r *reach) keeper(cmd *cobra.Command) (*keeper, error) {
	if err := config.Bind(cmd, envPrefix); err != nil {
		return nil, err
	}
	cluster := &kubeapi.Cluster{Kubeconfig: r.kubeconfig, Context: r.context, Servers: r.servers}
	client, err := cluster.Client()
	if err != nil {
		return nil, err
	}
	k := &keeper{out: cmd.OutOrStdout(), world: newWorld(), client: client}
	k.actor = &actor{client: cluster.Client, world: k.world}
	k.lock = &lease.Lock{
		Client: cluster.Client, Namespace: leaseNamespace, Name: lockName,
		Identity: lease.NewIdentity("by-hand"), Duration: 2 * plan.TurnLasts,
	}
	return k, nil
}

func (k *keeper) read(ctx context.Context) (sight, error) {
	return (&reader{world: k.world, client: k.client}).read(ctx)
}

func (k *keeper) say(format string, args ...any) { _, _ = fmt.Fprintf(k.out, format+"\n", args...) }

// nodesOf lists the nodes that slices or agents' Leases of ours name.
func nodesOf(v *plan.View) []string {
	all := map[string]bool{}
	for i := range v.Slices {
		if s := &v.Slices[i]; s.Owner == plan.Ours && s.Node != "" {
			all[s.Node] = true
		}
	}
	for i := range v.Leases {
		if l := &v.Leases[i]; l.Role == plan.Agent {
			all[l.Node] = true
		}
	}
	return stdslices.Sorted(maps.Keys(all))
}

// ofNode are the slices of ours that name a node.
func ofNode(v *plan.View, node string) []plan.Slice {
	var all []plan.Slice
	for i := range v.Slices {
		if s := v.Slices[i]; s.Owner == plan.Ours && (s.Node == node || s.Name == plan.SliceName(node, s.Family)) {
			all = append(all, s)
		}
	}
	return all
}

// find is the Lease of that role and name.
func find(v *plan.View, role plan.Role, name string) (plan.Lease, bool) {
	i := stdslices.IndexFunc(v.Leases, func(l plan.Lease) bool { return l.Role == role && l.Name == name })
	if i < 0 {
		return plan.Lease{}, false
	}
	return v.Leases[i], true
}

// moving says which of the nodes give signs of life, of those that are asked
// about, in words; it watches for as long as that takes.
func (k *keeper) moving(ctx context.Context, signs map[string][]plan.Lease) (string, error) {
	for deadline := time.Now().Add(watchFor); time.Now().Before(deadline); {
		if len(signs) == 0 {
			return "", nil
		}
		if !pause(ctx, time.Second) {
			return "", ctx.Err()
		}
		now, err := k.read(ctx)
		if err != nil {
			return "", err
		}
		for node, leases := range signs {
			for _, old := range leases {
				if l, ok := find(&now.view, old.Role, old.Name); ok && l.Token != old.Token && l.Holder != "" {
					who := map[plan.Role]string{plan.Agent: "agent", plan.Identity: "apiserver"}[l.Role]
					return fmt.Sprintf("the %s of node %s still renews its Lease", who, node), nil
				}
			}
		}
	}
	return "", nil
}

// under runs f while the short Lease is held.
func (k *keeper) under(ctx context.Context, f func(context.Context) error) error {
	for {
		held, err := k.lock.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("take lease %s: %w", lockName, err)
		}
		if held {
			break
		}
		if !pause(ctx, retryMax) {
			return ctx.Err()
		}
	}
	within, cancel := k.lock.Context(ctx)
	defer cancel()
	defer func() { _ = k.lock.Release(ctx) }()
	return f(within)
}

// changed is what a person hears of an object that is not as it was read.
func changed(object string, err error) error {
	if kubeapi.Code(err) != http.StatusConflict {
		return err
	}
	return exit.With(exit.Failed, fmt.Errorf("%s was changed meanwhile; nothing more was deleted; run it again", object))
}

// remove deletes the slices and the Lease of a node, as they were read.
func (k *keeper) remove(ctx context.Context, s *sight, node string) error {
	for _, each := range ofNode(&s.view, node) {
		w := plan.Write{Op: plan.DeleteSlice, Slice: each, Takes: true}
		if err := k.actor.perform(ctx, s, &w); err != nil {
			return changed("EndpointSlice default/"+each.Name, err)
		}
		k.say("deleted EndpointSlice default/%s (%s)", each.Name, each.Address)
	}
	if l, ok := find(&s.view, plan.Agent, leaseName(node)); ok {
		if err := k.client.Delete(ctx, leasesPath+"/"+url.PathEscape(l.Name), kubeapi.Preconditions{ResourceVersion: l.Token}); err != nil {
			return changed("Lease "+leaseNamespace+"/"+l.Name, err)
		}
		k.say("deleted Lease %s/%s", leaseNamespace, l.Name)
	}
	return nil
}

func handbackCommand() *cobra.Command {
	var r reach
	all := false
	cmd := &cobra.Command{
		Use:   "handback NODE...|--all",
		Short: "Give the endpoints back to the apiservers' own reconciler",
		Long: "Delete the slices and Leases of nodes whose agents are stopped, once an apiserver writes\n" +
			"EndpointSlice default/kubernetes itself again: start every kube-apiserver without\n" +
			"--endpoint-reconciler-type=none first. With --all trafficDistribution of the Service\n" +
			"becomes what it was before, too. Takes a quarter of a minute, to see who writes.",
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) > 0) == all {
				return errors.New("handback: name the nodes, or give --all")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := r.keeper(cmd)
			if err != nil {
				return err
			}
			return k.handback(cmd.Context(), args, all)
		},
	}
	r.bind(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "of all nodes, and restore trafficDistribution")
	return cmd
}

func (k *keeper) handback(ctx context.Context, nodes []string, all bool) error {
	s, err := k.read(ctx)
	if err != nil {
		return err
	}
	if all {
		nodes = nodesOf(&s.view)
	}
	if err := known(&s.view, nodes); err != nil {
		return err
	}
	if err := k.proveWriting(ctx, &s); err != nil {
		return err
	}
	signs := map[string][]plan.Lease{}
	for _, n := range nodes {
		if l, ok := find(&s.view, plan.Agent, leaseName(n)); ok && l.Holder != "" {
			signs[n] = []plan.Lease{l}
		}
	}
	switch alive, err := k.moving(ctx, signs); {
	case err != nil:
		return err
	case alive != "":
		return exit.With(exit.Failed, fmt.Errorf("%s and would publish again: stop it first; nothing was deleted", alive))
	}
	return k.under(ctx, func(ctx context.Context) error { return k.giveBack(ctx, nodes, all) })
}

// known refuses nodes of which there is nothing.
func known(v *plan.View, nodes []string) error {
	for _, n := range nodes {
		if !stdslices.Contains(nodesOf(v), n) {
			return fmt.Errorf("node %s: it has neither a slice nor a Lease of ours; there are %s", n, orNone(nodesOf(v)))
		}
	}
	return nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// proveWriting puts the probe on the slice kubernetes and waits until somebody
// erases it: only then is there a reconciler that goes on when ours are gone.
func (k *keeper) proveWriting(ctx context.Context, s *sight) error {
	c := s.view.Combined
	remedy := "start every kube-apiserver without --endpoint-reconciler-type=none (or with lease) first; nothing was deleted"
	if c == nil || c.Owner != plan.Reconciler || !anyReady(c) {
		return exit.With(exit.Failed, fmt.Errorf("no apiserver writes EndpointSlice default/kubernetes: %s", remedy))
	}
	w := plan.Write{Op: plan.ProbeCombined, Combined: *c}
	w.Combined.Probe = "by-hand"
	if err := k.actor.perform(ctx, s, &w); err != nil && !conflict(err) { // a conflict is a writer
		return err
	}
	for deadline := time.Now().Add(watchFor); time.Now().Before(deadline); {
		now, err := k.read(ctx)
		if err != nil {
			return err
		}
		if c := now.view.Combined; c != nil && c.Owner == plan.Reconciler && c.Probe == "" && anyReady(c) {
			*s = now
			return nil
		}
		if !pause(ctx, time.Second) {
			return ctx.Err()
		}
	}
	return exit.With(exit.Failed, fmt.Errorf("EndpointSlice default/kubernetes is the apiservers', but none has written it for %s: %s", watchFor, remedy))
}

func anyReady(c *plan.Combined) bool {
	return stdslices.ContainsFunc(c.Members, func(m plan.Member) bool { return m.Ready })
}

// giveBack deletes, under the Lease, on what is read now.
func (k *keeper) giveBack(ctx context.Context, nodes []string, all bool) error {
	s, err := k.read(ctx)
	if err != nil {
		return err
	}
	if c := s.view.Combined; c == nil || c.Owner != plan.Reconciler || !anyReady(c) {
		return exit.With(exit.Failed, errors.New("EndpointSlice default/kubernetes is no longer the apiservers': nothing was deleted"))
	}
	for _, n := range nodes {
		for _, each := range ofNode(&s.view, n) {
			if !stdslices.ContainsFunc(s.view.Combined.Members, func(m plan.Member) bool { return m.Address == each.Address }) {
				k.say("note: no apiserver lists %s: its clients go to the others from now on", each.Address)
			}
		}
		if err := k.remove(ctx, &s, n); err != nil {
			return err
		}
	}
	if !all {
		k.say("left: %s, and trafficDistribution of the Service", orNone(without(nodesOf(&s.view), nodes)))
		return nil
	}
	if err := k.restoreTraffic(ctx, &s); err != nil {
		return err
	}
	k.say("nothing of ours is left but Lease %s/%s, which lapses", leaseNamespace, lockName)
	return nil
}

func without(all, gone []string) []string {
	return stdslices.DeleteFunc(stdslices.Clone(all), func(s string) bool { return stdslices.Contains(gone, s) })
}

// restoreTraffic makes trafficDistribution what it was before an agent set it.
func (k *keeper) restoreTraffic(ctx context.Context, s *sight) error {
	if s.service == nil || s.service.Annotations[trafficBefore] == "" {
		return nil
	}
	before := s.service.Annotations[trafficBefore]
	var value any
	if before != none {
		value = before
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": s.service.ResourceVersion, "annotations": map[string]any{trafficBefore: nil}},
		"spec":     map[string]any{"trafficDistribution": value},
	})
	if err != nil {
		return err
	}
	if _, err := k.client.Patch(ctx, servicesPath+"/"+plan.ServiceName, body); err != nil {
		return changed("Service default/"+plan.ServiceName, err)
	}
	k.say("trafficDistribution of Service default/kubernetes is %s again", before)
	return nil
}

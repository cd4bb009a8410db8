package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Targets of the clients in pods, and of those of a gateway.
const (
	// TargetService is the target of a path from a pod, through kube-proxy, to
	// the Service default/kubernetes.
	TargetService = "service"
	// TargetGateway is the target of a path to the gateway of the client's site.
	TargetGateway = "gateway"
)

// kindWeb asks the Service behind the gateways for a page.
const kindWeb = "web"

// Who publishes the endpoints of default/kubernetes in a run without the agents.
const (
	// ReconcilerLease is the apiservers' own reconciler.
	ReconcilerLease = "lease"
	// ReconcilerSeed is one zoned slice per node whose readiness follows a check
	// of its apiserver every 5 s, while nobody adopts a zone.
	ReconcilerSeed = "seed"
)

// Where the apiservers store.
const (
	// StorageOwn is the etcd member of an apiserver's own site alone.
	StorageOwn = "own"
	// StorageList is every member, tried by the apiserver's own etcd client.
	StorageList = "list"
)

// Slices says who publishes the endpoints of the Service default/kubernetes and
// what must hold of them in the run with the agents, beyond what always must:
// never none that is ready, none without a zone, no zone without a ready
// endpoint for longer than Adopted, and no two adopters of a zone but in passing.
type Slices struct {
	// Without is who publishes them in the run without the agents: lease (the
	// default) or seed.
	Without string `yaml:"without,omitempty"`
	// Out is how soon after a fault hits an apiserver its endpoint must have left
	// those of its zone; 0 does not ask.
	Out time.Duration `yaml:"out,omitempty"`
	// Adopted is how long a zone may be without a ready endpoint that serves it
	// (default 3 s).
	Adopted time.Duration `yaml:"adopted,omitempty"`
	// Changes bounds how often the endpoints change while the faults are in
	// force; nil allows any number.
	Changes *Bounds `yaml:"changes,omitempty"`
}

// DefaultAdopted is the promise of `holdfast slices`.
const DefaultAdopted = 3 * time.Second

// AdoptedWithin is how long a zone may be without a ready endpoint.
func (s Slices) AdoptedWithin() time.Duration {
	if s.Adopted > 0 {
		return s.Adopted
	}
	return DefaultAdopted
}

// InPod says whether the client of the path stands in a pod of its site.
func (p Path) InPod() bool { return p.Target == TargetService || p.Target == TargetClusterIP }

// Zone is the zone of a site.
func (c *Case) Zone(site string) string {
	for _, s := range c.Lab.Sites {
		if s.Name == site && s.Zone != "" {
			return s.Zone
		}
	}
	return site
}

// StorageIn is where the apiservers of a run store: StorageOwn, StorageList, or
// through the balancer of their node when the run has such agents.
func (c *Case) StorageIn(agents bool) string {
	if agents && c.Agents.Has(AgentEtcdBalance) {
		return AgentEtcdBalance
	}
	return c.Storage
}

// HasBalancers says whether a run has balancers in front of the apiservers.
func (c *Case) HasBalancers(agents bool) bool {
	return c.Agents.Has(AgentBalance) && (agents || c.Balance.Without != ProfileNone)
}

// checkKubernetes refuses what has nothing to stand on.
func (c *Case) checkKubernetes() error {
	for _, need := range []struct {
		asked, met   bool
		field, remed string
	}{
		{c.Agents.Has(AgentSlices), c.Kubernetes, "agents: slices has no kube-proxy to publish for", "kubernetes: true"},
		{c.Agents.Has(AgentZonal), len(c.Gateway) > 0, "agents: zonal has no gateway to serve", "gateway: [a, b]"},
		{c.Agents.Has(AgentEtcdBalance), c.APIServers, "agents: etcd-balance has nobody to serve", "apiservers: true"},
		{len(c.Gateway) > 0, c.Kubernetes, "gateway: there are no pods to stand behind it", "kubernetes: true"},
		{c.Alone, !c.Agents.Has(AgentNone), "alone: there is no agent to run with", "agents, or leave it out"},
		{c.NodesReady, c.Kubernetes, "nodesReady: there are no kubelets", "kubernetes: true"},
		{c.Slices != Slices{} && c.Slices != Slices{Without: ReconcilerLease}, c.Agents.Has(AgentSlices), "slices: nobody publishes them", "slices to agents"},
	} {
		if need.asked && !need.met {
			return fmt.Errorf("%s; add %s", need.field, need.remed)
		}
	}
	for i, site := range c.Gateway {
		if err := oneOf(fmt.Sprintf("gateway[%d]", i), site, c.SiteNames()); err != nil {
			return err
		}
	}
	if err := oneOf("storage", c.Storage, []string{"", StorageOwn, StorageList}); err != nil {
		return err
	}
	return c.Slices.check()
}

func (s Slices) check() error {
	if s.Out < 0 || s.Adopted < 0 {
		return fmt.Errorf("slices.out, slices.adopted: %s, %s; durations are not negative", s.Out, s.Adopted)
	}
	if err := s.Changes.check("slices.changes"); err != nil {
		return err
	}
	return oneOf("slices.without", s.Without, []string{"", ReconcilerLease, ReconcilerSeed})
}

// checkClient refuses a path whose client or server the lab does not have.
func (c *Case) checkClient(at string, p Path) error {
	switch {
	case p.InPod() && !c.Kubernetes:
		return fmt.Errorf("%s.targets: there are no pods; add kubernetes: true", at)
	case p.Target == TargetClusterIP:
		return c.checkPage(at, p)
	case p.InPod() && !IsAPI(p.Kind):
		return fmt.Errorf("%s.kinds: the Service serves no %s; choose one of %s", at, p.Kind, strings.Join(apiKinds, ", "))
	case p.Addressed(): // see checkAddressed
	case (p.Kind == KindQuery) != (p.Target == TargetStore):
		return fmt.Errorf("%s: query and store go together; write targets: [store], kinds: [query]", at)
	case p.Target == TargetStore:
		return c.checkQuery(at, p)
	case (p.Kind == kindWeb) != (p.Target == TargetGateway):
		return fmt.Errorf("%s: web and gateway go together; write targets: [gateway], kinds: [web]", at)
	case p.Target == TargetGateway && !slices.Contains(c.Gateway, p.Site):
		return fmt.Errorf("%s.sites: site %s has no gateway; choose one of %s", at, p.Site, strings.Join(c.Gateway, ", "))
	}
	return nil
}

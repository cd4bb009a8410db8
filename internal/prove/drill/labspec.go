package drill

import (
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// labSpec is the lab that a case asks for.
func labSpec(c *scenario.Case, agents bool, peer, dir string) (lab.Spec, error) {
	spec, err := lab.Default(c.Lab.Preset)
	if err != nil {
		return spec, err
	}
	spec.Name = labName(c.Scenario)
	spec.Dir, spec.Peer = dir, peer
	spec.Sites = nil
	for _, s := range c.Lab.Sites {
		spec.Sites = append(spec.Sites, lab.Site{Name: s.Name, Zone: s.Zone, Witness: s.Witness, Nodes: s.Nodes, APIServers: apiserversIn(c, s.Name)})
	}
	spec.Links = slices.DeleteFunc(spec.Links, func(l lab.Link) bool {
		return !slices.Contains(c.SiteNames(), l.A) || !slices.Contains(c.SiteNames(), l.B)
	})
	if len(c.Lab.Links) > 0 {
		spec.Links = nil
		for _, l := range c.Lab.Links {
			spec.Links = append(spec.Links, lab.Link{A: l.A, B: l.B, Delay: l.Delay, Jitter: l.Jitter, Rate: l.Mbit * 1_000_000, Loss: l.Loss})
		}
	}
	spec.Etcd = nil
	for _, k := range c.Clusters {
		spec.Etcd = append(spec.Etcd, lab.Cluster{Name: k.Name, Sites: k.Sites, ClientPort: k.ClientPort, PeerPort: k.PeerPort, Heartbeat: k.Heartbeat, Election: k.Election, SlowDisks: c.HasSlowDisks()})
	}
	if c.HasPair() {
		if peer == "" {
			spec.Peer = pairPeer
		}
		spec.Etcd = append(spec.Etcd, lab.Cluster{Name: arbiterCluster, Sites: []string{c.Pair.Site}, ClientPort: arbiterClientPort})
	}
	spec.APIServers, spec.APIServer.EtcdCheck = c.APIServers, c.EtcdCheck
	specKubernetes(&spec, c, agents)
	return spec, nil
}

// maxLabName is how long the name of a lab may be.
const maxLabName = 32

// labName is the lab's of a scenario, whose name may be longer.
func labName(scenario string) string {
	name := "drill-" + scenario
	return strings.TrimRight(name[:min(len(name), maxLabName)], "-")
}

// apiserversIn is how many nodes of a site have one: every machine that holds the
// address where its apiserver is ready.
func apiserversIn(c *scenario.Case, site string) int {
	if c.VIP.Health == scenario.HealthAPIServer && c.VIP.Site() == site {
		return len(c.VIP.Nodes)
	}
	return 0
}

// specKubernetes says where the apiservers store, who keeps their endpoints, and
// whom kubelet and kube-proxy ask.
func specKubernetes(spec *lab.Spec, c *scenario.Case, agents bool) {
	switch c.StorageIn(agents) {
	case scenario.AgentEtcdBalance:
		spec.APIServer.Etcd = "https://" + etcdBalanceListen
	case scenario.StorageList:
		spec.APIServer.Etcd = "list"
	}
	if spec.Kubernetes = c.Kubernetes; !c.Kubernetes {
		return
	}
	if c.Agents.Has(scenario.AgentSlices) && (agents || c.Slices.Without == scenario.ReconcilerSeed) {
		spec.APIServer.Endpoints = "none"
	}
	if c.HasBalancers(agents) {
		spec.KubernetesOptions.NodeServer = "https://" + balanceListen
	}
}

package drill

import (
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// labSpec is the lab that a case asks for.
func labSpec(c *scenario.Case, peer, dir string) (lab.Spec, error) {
	spec, err := lab.Default(c.Lab.Preset)
	if err != nil {
		return spec, err
	}
	spec.Name = "drill-" + c.Scenario
	spec.Dir, spec.Peer = dir, peer
	spec.Sites = nil
	for _, s := range c.Lab.Sites {
		spec.Sites = append(spec.Sites, lab.Site{Name: s.Name, Zone: s.Zone, Witness: s.Witness})
	}
	if len(c.Lab.Links) > 0 {
		spec.Links = nil
		for _, l := range c.Lab.Links {
			spec.Links = append(spec.Links, lab.Link{A: l.A, B: l.B, Delay: l.Delay, Jitter: l.Jitter, Rate: l.Mbit * 1_000_000, Loss: l.Loss})
		}
	}
	spec.Etcd = nil
	for _, k := range c.Clusters {
		spec.Etcd = append(spec.Etcd, lab.Cluster{Name: k.Name, ClientPort: k.ClientPort, PeerPort: k.PeerPort, Heartbeat: k.Heartbeat, Election: k.Election})
	}
	spec.APIServers, spec.APIServer.EtcdCheck = c.APIServers, c.EtcdCheck
	return spec, nil
}

package lab

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Spec describes a lab.
type Spec struct {
	Name string `json:"name" yaml:"-"`
	// Dir is where the lab keeps certificates, logs and its journal; "" makes
	// a temporary directory that Close removes.
	Dir   string    `json:"dir,omitempty" yaml:"-"`
	Sites []Site    `json:"sites"`
	Links []Link    `json:"links"`
	Etcd  []Cluster `json:"etcd,omitempty"`
	// Peer is the etcd to run: "3.5", "3.6" or "3.7" from the cache of peers
	// (built by test/peers), or "" for holdfastd beside the running executable
	// and, where that is missing, the newest cached peer.
	Peer string `json:"peer,omitempty"`
	// Disk keeps etcd's data in Dir. By default it goes to /dev/shm, because
	// fsync on a shared machine adds seconds of noise to every measurement.
	Disk bool `json:"disk,omitempty"`
	// APIServers starts a kube-apiserver in every site, which stores in that
	// site's member of the first etcd cluster alone.
	APIServers bool             `json:"apiservers,omitempty"`
	APIServer  APIServerOptions `json:"apiserver,omitzero"`
	// Kubernetes makes every node one of a Kubernetes cluster: apiservers as
	// above, a kube-controller-manager and a kube-scheduler in every site, and
	// containerd, a kubelet and a kube-proxy on every node.
	Kubernetes        bool              `json:"kubernetes,omitempty"`
	KubernetesOptions KubernetesOptions `json:"kubernetes_options,omitzero" yaml:"kubernetes_options"`
	// Preset names the preset that the spec came from, for reports.
	Preset string `json:"preset,omitempty" yaml:"-"`
}

// Site is a place with a power feed: a router, and nodes on one bridge.
type Site struct {
	Name string `json:"name"`
	// Zone is the value of topology.kubernetes.io/zone; "" means Name.
	Zone string `json:"zone,omitempty"`
	// Nodes is how many nodes stand in the site; 0 means 1.
	Nodes int `json:"nodes,omitempty"`
	// APIServers is how many of the nodes, from the first on, run a
	// kube-apiserver in a lab that has them; 0 means 1. All of a site store in
	// its member, the others over its node's address.
	APIServers int `json:"apiservers,omitempty"`
	// Witness marks a site that votes and carries no workload.
	Witness bool `json:"witness,omitempty"`
}

// Link joins two sites. Its properties hold in each direction.
type Link struct {
	A string `json:"a"`
	B string `json:"b"`
	// Delay is the travel time of a packet one way, Jitter the most that
	// chance adds to it. Jitter does not reorder.
	Delay  time.Duration `json:"delay,omitempty"`
	Jitter time.Duration `json:"jitter,omitempty"`
	// Rate is bits per second; 0 is unlimited.
	Rate uint64 `json:"rate,omitempty"`
	// Loss is the share of packets lost, 0 to 1.
	Loss float64 `json:"loss,omitempty"`
}

// Cluster is an etcd cluster with a member on the first node of every site.
type Cluster struct {
	Name string `json:"name"`
	// Sites are those that have a member; none given means every one.
	Sites []string `json:"sites,omitempty"`
	// ClientPort and PeerPort default to 2379 and 2380 for the first cluster
	// and to ten more for each further one. The port after PeerPort serves
	// metrics on the loopback.
	ClientPort int `json:"client_port,omitempty" yaml:"client_port"`
	PeerPort   int `json:"peer_port,omitempty" yaml:"peer_port"`
	// Heartbeat and Election are etcd's timers; 0 keeps its defaults, 100 ms
	// and 1 s.
	Heartbeat time.Duration `json:"heartbeat,omitempty"`
	Election  time.Duration `json:"election,omitempty"`
	// SlowDisks makes the disks of members such that [Member.SlowDisk] can slow
	// each. It costs every sync some tens of microseconds.
	SlowDisks bool `json:"slow_disks,omitempty" yaml:"slow_disks"`
}

// MetricsPort is where the cluster's members serve /metrics on 127.0.0.1.
func (c Cluster) MetricsPort() int { return c.PeerPort + 1 }

// Presets lists the names that Default knows.
func Presets() []string { return []string{"lan", "rtt", "one-way"} }

// Default returns the lab of the seed: sites a, b and the witness c, 100 Mbit/s
// between a and b, one etcd cluster "main". The documents give 23 and 43 ms to
// the witness without saying whether that is a round trip; "rtt" takes them as
// round trips, "one-way" as travel times, "lan" leaves delays out.
func Default(preset string) (Spec, error) {
	var ab, ac, bc time.Duration // round trips
	switch preset {
	case "lan":
	case "rtt", "":
		preset = "rtt"
		ab, ac, bc = 30*time.Millisecond, 23*time.Millisecond, 43*time.Millisecond
	case "one-way":
		ab, ac, bc = 60*time.Millisecond, 46*time.Millisecond, 86*time.Millisecond
	default:
		return Spec{}, fmt.Errorf("preset %q is unknown: use %s", preset, strings.Join(Presets(), ", "))
	}
	return Spec{
		Name: "default", Preset: preset,
		Sites: []Site{{Name: "a", Zone: "a"}, {Name: "b", Zone: "b"}, {Name: "c", Zone: "c", Witness: true}},
		Links: []Link{
			{A: "a", B: "b", Delay: ab / 2, Rate: 100_000_000},
			{A: "a", B: "c", Delay: ac / 2},
			{A: "b", B: "c", Delay: bc / 2},
		},
		Etcd: []Cluster{{Name: "main", ClientPort: 2379, PeerPort: 2380}},
	}, nil
}

const (
	maxSites = 200 // the third byte of 10.77.N.0/24, and of the links' 10.78.N.0
	maxNodes = 200 // node n has host part 10+n
)

var (
	labName  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)
	siteName = regexp.MustCompile(`^[a-z]([a-z0-9]{0,6}[a-z])?$`)
)

// complete fills defaults in and reports the first mistake.
func (s Spec) complete() (Spec, error) {
	s.Sites, s.Links, s.Etcd = slices.Clone(s.Sites), slices.Clone(s.Links), slices.Clone(s.Etcd)
	if s.Name == "" {
		s.Name = "default"
	}
	if !labName.MatchString(s.Name) {
		return s, fmt.Errorf("lab name %q is not usable: use up to 32 lower-case letters, digits and inner dashes", s.Name)
	}
	if err := s.completeSites(); err != nil {
		return s, err
	}
	if err := s.checkLinks(); err != nil {
		return s, err
	}
	if s.Peer != "" && !slices.Contains(peers, s.Peer) {
		return s, fmt.Errorf("etcd version %q is unknown: use one of %s, or none for holdfastd", s.Peer, strings.Join(peers, ", "))
	}
	if err := s.completeClusters(); err != nil {
		return s, err
	}
	if err := s.completeKubernetes(); err != nil {
		return s, err
	}
	err := s.completeAPIServers()
	return s, err
}

func (s Spec) completeSites() error {
	if len(s.Sites) == 0 || len(s.Sites) > maxSites {
		return fmt.Errorf("lab %s has %d sites: give 1 to %d", s.Name, len(s.Sites), maxSites)
	}
	seen := map[string]bool{}
	for i := range s.Sites {
		site := &s.Sites[i]
		if !siteName.MatchString(site.Name) {
			return fmt.Errorf("site name %q is not usable: use up to 8 lower-case letters and inner digits (a node is called site and number, as in a1)", site.Name)
		}
		if seen[site.Name] {
			return fmt.Errorf("site %q is given twice: rename one", site.Name)
		}
		seen[site.Name] = true
		if site.Zone == "" {
			site.Zone = site.Name
		}
		if site.Nodes == 0 {
			site.Nodes = 1
		}
		if site.Nodes < 0 || site.Nodes > maxNodes {
			return fmt.Errorf("site %s has %d nodes: give 1 to %d", site.Name, site.Nodes, maxNodes)
		}
		if site.APIServers < 0 || site.APIServers > site.Nodes {
			return fmt.Errorf("site %s has %d apiservers on %d nodes: give at most one per node", site.Name, site.APIServers, site.Nodes)
		}
	}
	return nil
}

func (s Spec) checkLinks() error {
	seen := map[[2]string]bool{}
	for _, l := range s.Links {
		for _, end := range []string{l.A, l.B} {
			if !s.hasSite(end) {
				return fmt.Errorf("link %s-%s names the unknown site %q: use %s", l.A, l.B, end, strings.Join(s.siteNames(), ", "))
			}
		}
		if l.A == l.B {
			return fmt.Errorf("link %s-%s joins a site to itself: name two sites", l.A, l.B)
		}
		key := [2]string{min(l.A, l.B), max(l.A, l.B)}
		if seen[key] {
			return fmt.Errorf("link %s-%s is given twice: remove one", l.A, l.B)
		}
		seen[key] = true
		if err := l.check(); err != nil {
			return err
		}
	}
	return nil
}

// check reports a property outside its range.
func (l Link) check() error {
	const most = 10 * time.Second
	switch {
	case l.Delay < 0 || l.Delay > most:
		return fmt.Errorf("link %s-%s has a delay of %v: give 0 to %v", l.A, l.B, l.Delay, most)
	case l.Jitter < 0 || l.Jitter > most:
		return fmt.Errorf("link %s-%s has a jitter of %v: give 0 to %v", l.A, l.B, l.Jitter, most)
	case l.Loss < 0 || l.Loss >= 1 || l.Loss != l.Loss:
		return fmt.Errorf("link %s-%s has a loss of %v: give a share from 0 to below 1, and use a cut to lose everything", l.A, l.B, l.Loss)
	case l.Rate > 0 && l.Rate < 64_000:
		return fmt.Errorf("link %s-%s has a rate of %d bit/s: give at least 64 kbit/s, or 0 for no limit", l.A, l.B, l.Rate)
	}
	return nil
}

func (s Spec) completeClusters() error {
	names, ports := map[string]bool{}, map[int]string{}
	for i := range s.Etcd {
		c := &s.Etcd[i]
		if !labName.MatchString(c.Name) {
			return fmt.Errorf("etcd cluster name %q is not usable: use lower-case letters, digits and inner dashes", c.Name)
		}
		if names[c.Name] {
			return fmt.Errorf("etcd cluster %q is given twice: rename one", c.Name)
		}
		names[c.Name] = true
		for _, site := range c.Sites {
			if !s.hasSite(site) {
				return fmt.Errorf("etcd cluster %s has a member in the unknown site %q: use %s", c.Name, site, strings.Join(s.siteNames(), ", "))
			}
		}
		if c.ClientPort == 0 {
			c.ClientPort = 2379 + 10*i
		}
		if c.PeerPort == 0 {
			c.PeerPort = c.ClientPort + 1
		}
		for _, p := range []int{c.ClientPort, c.PeerPort, c.MetricsPort()} {
			if p < 1 || p > 65535 || p == echoPort {
				return fmt.Errorf("etcd cluster %s uses port %d: give 1 to 65535 other than %d", c.Name, p, echoPort)
			}
			if other := ports[p]; other != "" {
				return fmt.Errorf("etcd cluster %s uses port %d, which belongs to %s: choose other client and peer ports (the port after the peer port serves metrics)", c.Name, p, other)
			}
			ports[p] = c.Name
		}
	}
	return nil
}

// completeAPIServers is called by a pointer, unlike its siblings, which change
// what slices point to.
func (s *Spec) completeAPIServers() error {
	if !s.APIServers {
		return nil
	}
	if len(s.Etcd) == 0 {
		return errors.New("apiservers have no etcd cluster to store in: add one under etcd, or leave apiservers out")
	}
	for _, c := range s.Etcd {
		if slices.Contains([]int{c.ClientPort, c.PeerPort, c.MetricsPort()}, APIServerPort) {
			return fmt.Errorf("etcd cluster %s uses port %d, which belongs to the apiservers: choose another", c.Name, APIServerPort)
		}
	}
	if s.APIServer.Endpoints == "" {
		s.APIServer.Endpoints = "lease"
	}
	if s.APIServer.EtcdCheck < 0 {
		return fmt.Errorf("apiserver.etcd_check is %v: give 0 for upstream's 2s, or more", s.APIServer.EtcdCheck)
	}
	if !slices.Contains([]string{"lease", "none"}, s.APIServer.Endpoints) {
		return fmt.Errorf("apiserver.endpoints is %q: use lease or none", s.APIServer.Endpoints)
	}
	return s.APIServer.checkEtcd()
}

func (s Spec) hasSite(name string) bool { return slices.Contains(s.siteNames(), name) }

func (s Spec) siteNames() []string {
	names := make([]string, len(s.Sites))
	for i, site := range s.Sites {
		names[i] = site.Name
	}
	return names
}

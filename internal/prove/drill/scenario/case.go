package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Case is one variant of a scenario with every default filled in: all that
// the engine needs to run it and the judge to judge it.
type Case struct {
	Scenario string            `yaml:"scenario"`
	Title    string            `yaml:"title"`
	Variant  string            `yaml:"variant"`
	About    string            `yaml:"about,omitempty"`
	Lab      Lab               `yaml:"lab"`
	Clusters []Cluster         `yaml:"clusters"`
	Leaders  map[string]string `yaml:"leaders"`
	// APIServers and EtcdCheck are as in [Scenario].
	APIServers bool          `yaml:"apiservers,omitempty"`
	EtcdCheck  time.Duration `yaml:"etcdCheck,omitempty"`
	Kubernetes bool          `yaml:"kubernetes,omitempty"`
	Storage    string        `yaml:"storage,omitempty"`
	Gateway    []string      `yaml:"gateway,omitempty"`
	Agents     Agents        `yaml:"agents"`
	Alone      bool          `yaml:"alone,omitempty"`
	Remedy     Remedy        `yaml:"remedy,omitempty"`
	Balance    Balance       `yaml:"balance,omitempty"`
	Slices     Slices        `yaml:"slices,omitempty"`
	VIP        VIP           `yaml:"vip,omitempty"`
	Pair       Pair          `yaml:"pair,omitempty"`
	Service    Service       `yaml:"service,omitempty"`
	Stores     Stores        `yaml:"stores,omitempty"`
	NodesReady bool          `yaml:"nodesReady,omitempty"`
	Phases     Phases        `yaml:"phases"`
	Faults     []Step        `yaml:"faults"`
	Paths      []Path        `yaml:"paths"`
	Expect     []Expectation `yaml:"expect"`
	Moves      Moves         `yaml:"moves"`
	Compare    *Compare      `yaml:"compare,omitempty"`
}

// Path is one client path. Name is unique within a case.
type Path struct {
	Name string `yaml:"name"`
	// Site is where the client stands, Cluster and Target the member asked. Of a
	// path to apiservers, Cluster is where they store, and Target a site,
	// "balance", "service" or "address".
	Site     string        `yaml:"site"`
	Cluster  string        `yaml:"cluster"`
	Target   string        `yaml:"target"`
	Kind     string        `yaml:"kind"`
	Mode     string        `yaml:"mode"`
	Interval time.Duration `yaml:"interval"`
	Timeout  time.Duration `yaml:"timeout"`
}

// Defaults of a path. 100 ms resolves the 1 s bars of the product's promises
// to a tenth; 2 s outlives etcd's 500 ms read retry and a 1–2 s election.
const (
	DefaultInterval = 100 * time.Millisecond
	DefaultTimeout  = 2 * time.Second
)

// Default durations: long enough for the slowest window (6 s) to be seen
// three times over, short enough that a person waits for it.
var defaultPhases = Phases{Baseline: 5 * time.Second, Hold: 20 * time.Second, Settle: 8 * time.Second}

// etcd's own defaults (embed.NewConfig).
const (
	defaultHeartbeat = 100 * time.Millisecond
	defaultElection  = time.Second
)

// defaultPreset is the lab's own default: the sites of the seed, 23 to 43 ms
// of round trip apart.
const defaultPreset = "rtt"

// Case resolves the variant called name.
func (s *Scenario) Case(name string) (*Case, error) {
	i := slices.IndexFunc(s.Variants, func(v Variant) bool { return v.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("variant %q: scenario %s has no such variant; choose one of %s", name, s.Name, strings.Join(s.VariantNames(), ", "))
	}
	v := s.Variants[i]
	c := &Case{
		Scenario: s.Name, Variant: v.Name, About: strings.TrimSpace(s.About),
		Title:    cmp.Or(v.Title, s.Title),
		Lab:      s.Lab,
		Clusters: fillClusters(either(v.Clusters, s.Clusters)),
		Leaders:  v.Leaders,
		Agents:   either(either(v.Agents, s.Agents), Agents{AgentLeader}),
		Balance:  s.Balance,
		Phases:   fillPhases(v.Phases, s.Phases),
		Faults:   either(v.Faults, s.Faults),
		Expect:   either(v.Expect, s.Expect),
		Moves:    s.Moves,
		Compare:  cmp.Or(v.Compare, s.Compare),
		Remedy:   s.Remedy,
	}
	if v.Remedy != nil {
		c.Remedy = *v.Remedy
	}
	if v.Moves != nil {
		c.Moves = *v.Moves
	}
	if v.Balance != nil {
		c.Balance = *v.Balance
	}
	if v.Lab != nil {
		c.Lab = *v.Lab
	}
	c.resolveServers(s, v)
	c.Lab.Preset = cmp.Or(c.Lab.Preset, defaultPreset)
	if len(c.Lab.Sites) == 0 {
		c.Lab.Sites = defaultSites()
	}
	c.fillPair()
	c.Stores, c.Service = s.Stores.fill(), s.Service
	if v.Service != nil {
		c.Service = *v.Service
	}
	c.Service = c.Service.fill()
	c.Paths = c.expand(either(v.Paths, s.Paths))
	return c, nil
}

// resolveServers fills in what the apiservers and all around them are.
func (c *Case) resolveServers(s *Scenario, v Variant) {
	c.Kubernetes, c.Gateway, c.NodesReady, c.Alone = s.Kubernetes, s.Gateway, s.NodesReady, s.Alone
	c.APIServers = s.APIServers || v.APIServers || c.Kubernetes
	c.EtcdCheck = cmp.Or(v.EtcdCheck, s.EtcdCheck)
	if c.Storage = cmp.Or(v.Storage, s.Storage); c.Storage == StorageOwn {
		c.Storage = ""
	}
	if c.Agents.Has(AgentBalance) {
		without := ProfileAnchors
		if c.Kubernetes {
			without = ProfileNone
		}
		c.Balance.Without = cmp.Or(c.Balance.Without, without)
	}
	c.Slices = s.Slices
	if v.Slices != nil {
		c.Slices = *v.Slices
	}
	c.VIP = s.VIP
	if v.VIP != nil {
		c.VIP = *v.VIP
	}
	c.VIP = c.VIP.fill()
	c.Pair = s.Pair
	if v.Pair != nil {
		c.Pair = *v.Pair
	}
	if c.Agents.Has(AgentSlices) {
		c.Slices.Without = cmp.Or(c.Slices.Without, ReconcilerLease)
	}
}

// VariantNames lists the variants in order; the first is the main one.
func (s *Scenario) VariantNames() []string {
	names := make([]string, len(s.Variants))
	for i, v := range s.Variants {
		names[i] = v.Name
	}
	return names
}

// SiteNames lists the sites in order.
func (c *Case) SiteNames() []string {
	names := make([]string, len(c.Lab.Sites))
	for i, s := range c.Lab.Sites {
		names[i] = s.Name
	}
	return names
}

// ClusterNames lists the clusters in order.
func (c *Case) ClusterNames() []string {
	names := make([]string, len(c.Clusters))
	for i, s := range c.Clusters {
		names[i] = s.Name
	}
	return names
}

// Shown is the server of a path as its name has it: "main", "main@b",
// "apiserver", "balance".
func (p Path) Shown() string {
	parts := strings.Split(p.Name, "/")
	if len(parts) != 4 {
		return p.Cluster
	}
	return parts[1]
}

// Balanced says whether the path leads through the balancer of its node.
func (p Path) Balanced() bool { return p.Target == TargetBalance }

// Kept says whether the path keeps its connection between requests.
func (p Path) Kept() bool { return p.Mode != "new" }

// PathsOf lists the paths whose client stands in site.
func (c *Case) PathsOf(site string) []Path {
	var paths []Path
	for _, p := range c.Paths {
		if p.Site == site {
			paths = append(paths, p)
		}
	}
	return paths
}

// ExpectationOf returns the expectation that judges p; role info when none does.
func (c *Case) ExpectationOf(p Path) Expectation {
	for _, e := range c.Expect {
		if e.matches(p) {
			return e
		}
	}
	return Expectation{Role: RoleInfo}
}

func (e Expectation) matches(p Path) bool {
	return has(e.Sites, p.Site) && e.asks(p) && has(e.Clusters, p.Cluster) && has(e.Kinds, p.Kind) && has(e.Modes, p.Mode)
}

// asks says whether the server of p is one of the targets.
func (e Expectation) asks(p Path) bool {
	return has(e.Targets, p.Target) || p.Target == p.Site && slices.Contains(e.Targets, targetOwn)
}

// has says whether list names v; an empty list names everything.
func has(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }

func (c *Case) expand(sets []Paths) []Path {
	if len(sets) == 0 {
		sets = []Paths{{}}
	}
	var out []Path
	seen := map[string]bool{}
	for _, set := range sets {
		for _, p := range c.product(set) {
			if !seen[p.Name] {
				seen[p.Name] = true
				out = append(out, p)
			}
		}
	}
	return out
}

func (c *Case) product(set Paths) []Path {
	var out []Path
	for _, site := range either(set.Sites, c.SiteNames()) {
		for _, cluster := range either(set.Clusters, c.ClusterNames()) {
			for _, target := range either(set.Targets, []string{targetOwn}) {
				if target == targetOwn && len(set.Sites) == 0 && !slices.Contains(c.MemberSites(cluster), site) {
					continue
				}
				for _, kind := range either(set.Kinds, etcdKinds) {
					for _, mode := range modesOf(kind, set.Modes) {
						out = append(out, newPath(set, site, cluster, target, kind, mode))
					}
				}
			}
		}
	}
	return out
}

func newPath(set Paths, site, cluster, target, kind, mode string) Path {
	server := cluster
	if IsAPI(kind) || kind == KindConnect {
		server = apiserverGroup
	}
	shown := server + "@" + target
	if target == targetOwn || target == site {
		target, shown = site, server
	}
	if slices.Contains(roles, target) {
		shown = target
	}
	return Path{
		Name: strings.Join([]string{site, shown, kind, mode}, "/"),
		Site: site, Cluster: cluster, Target: target, Kind: kind, Mode: mode,
		Interval: cmp.Or(set.Interval, DefaultInterval),
		Timeout:  cmp.Or(set.Timeout, DefaultTimeout),
	}
}

func modesOf(kind string, modes []string) []string {
	if strings.HasSuffix(kind, "watch") {
		return []string{"stream"}
	}
	if kind == KindUDP || kind == KindConnect {
		return []string{"new"}
	}
	return either(modes, []string{"new", "reused"})
}

func either[S ~[]T, T any](a, b S) S {
	if len(a) > 0 {
		return a
	}
	return b
}

func fillPhases(v, s Phases) Phases {
	return Phases{
		Baseline: cmp.Or(v.Baseline, s.Baseline, defaultPhases.Baseline),
		Hold:     cmp.Or(v.Hold, s.Hold, defaultPhases.Hold),
		Settle:   cmp.Or(v.Settle, s.Settle, defaultPhases.Settle),
	}
}

func fillClusters(in []Cluster) []Cluster {
	if len(in) == 0 {
		in = []Cluster{{Name: "main"}}
	}
	out := slices.Clone(in)
	for i := range out {
		out[i].ClientPort = cmp.Or(out[i].ClientPort, 2379+100*i)
		out[i].PeerPort = cmp.Or(out[i].PeerPort, 2380+100*i)
		out[i].Heartbeat = cmp.Or(out[i].Heartbeat, defaultHeartbeat)
		out[i].Election = cmp.Or(out[i].Election, defaultElection)
	}
	return out
}

// defaultSites are the three of every lab preset: two that work and a witness.
func defaultSites() []Site {
	return []Site{{Name: "a", Zone: "a"}, {Name: "b", Zone: "b"}, {Name: "c", Zone: "c", Witness: true}}
}

package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// AgentVIP is `holdfast vip run`, on every machine of the section vip. The run
	// without the agents has keepalived there, or what [VIP.Without] says.
	AgentVIP = "vip"
	// AgentFront is `holdfast balance run` on every machine of the section vip: it
	// serves the apiservers of all sites at the address, and the address is held
	// where it has one that is ready. Without the agents it is HAProxy.
	AgentFront = "front"
)

// TargetAddress is the target of a path to the held address.
const TargetAddress = "address"

// Kinds of paths to the held address, beside those of apiservers: a datagram that
// comes back with the name of who answered, and a line over TCP.
const (
	KindUDP  = "udp"
	KindEcho = "echo"
)

// Who decides about the address.
const (
	ModeVRRP  = "vrrp"
	ModeLease = "lease"
)

// Where the record of a lease is.
const (
	RecordEtcd       = "etcd"
	RecordKubernetes = "kubernetes"
)

// What the address depends on.
const (
	// HealthAPIServer gives every machine a kube-apiserver of its own, and holds
	// the address where it is ready.
	HealthAPIServer = "apiserver"
	// HealthPod makes it the address of a Service of type LoadBalancer, policy
	// Local, with a pod on every machine, and has each announce it that has a ready
	// one. It wants mode anycast and all of Kubernetes. Clients stand at the router.
	HealthPod = "pod"
	// HealthFront holds it where the balancer of AgentFront has a ready backend.
	HealthFront = "front"
)

// Who holds the address in a run without the agents.
const (
	// PeerKeepalived has the timers of a guide: adverts every second, a check
	// every 3 s that has to fail three times.
	PeerKeepalived = "keepalived"
	// PeerKeepalivedFast has the agents' adverts, and the checks of the guide.
	PeerKeepalivedFast = "keepalived-fast"
	// PeerElection is client-go's leader election with its defaults, as holders
	// that rest on a Lease have them; PeerElectionFast has the timers that guides
	// set.
	PeerElection     = "leaderelection"
	PeerElectionFast = "leaderelection-fast"
)

var allPeers = []string{PeerKeepalived, PeerKeepalivedFast, PeerElection, PeerElectionFast}

// ElectionTimers are those of client-go's leader election, and the time between
// two announcements of the address.
type ElectionTimers struct{ Duration, Renew, Retry, Announce time.Duration }

// ElectionTimers are those of the run without the agents.
func (v VIP) ElectionTimers() ElectionTimers {
	if v.Without == PeerElectionFast {
		return ElectionTimers{5 * time.Second, 3 * time.Second, time.Second, 3 * time.Second}
	}
	return ElectionTimers{15 * time.Second, 10 * time.Second, 2 * time.Second, 3 * time.Second}
}

// ByElection says that a leader election holds the address without the agents.
func (v VIP) ByElection() bool {
	return v.Without == PeerElection || v.Without == PeerElectionFast
}

// VIP is an address that several machines of one site may hold, and what must
// hold of it in the run with the agents: that no client and no router keeps a
// neighbour entry that leads elsewhere, and what the fields below say.
type VIP struct {
	// Nodes are the machines, on the bridge of one site; the first holds the
	// address at the start.
	Nodes []string `yaml:"nodes,omitempty"`
	// Mode is vrrp (default), lease or anycast, Record where the record of the lease is:
	// etcd (default) or kubernetes. Policy is keep (default) or drop.
	Mode   string `yaml:"mode,omitempty"`
	Record string `yaml:"record,omitempty"`
	Policy string `yaml:"policy,omitempty"`
	// Interval is between two adverts of the agents (default 100 ms).
	Interval time.Duration `yaml:"interval,omitempty"`
	// Health is apiserver, front or pod; "" depends on nothing.
	Health string `yaml:"health,omitempty"`
	// Without is who holds the address in the run without the agents.
	Without string `yaml:"without,omitempty"`
	// Moves bounds how often another machine comes to answer, from the first
	// fault to the end of the run; nil allows any number.
	Moves *Bounds `yaml:"moves,omitempty"`
	// TwoHolders is for how long two machines may answer at once; nil allows any
	// time.
	TwoHolders *time.Duration `yaml:"twoHolders,omitempty"`
	// Gone is how soon after a fault has hit an agent its machine must not have
	// the address any more; 0 does not ask.
	Gone time.Duration `yaml:"gone,omitempty"`
	// BGP is for mode anycast.
	BGP *BGP `yaml:"bgp,omitempty"`
}

// Defaults of an address.
const (
	// DefaultAdvert is the default of `holdfast vip`.
	DefaultAdvert = 100 * time.Millisecond
	// BestBackup is the priority of the machine that takes over first: the second
	// of Nodes. The first has 10 more, and each further one backupStep less.
	BestBackup = 200
	// backupStep keeps the skews of two backups 16 ms apart where adverts come every
	// 100 ms. Closer together, the scheduler of a busy machine decides which of them
	// takes over, and a move that nobody asked for follows when the better one is
	// heard.
	backupStep = 40
)

// Priority is that of the machine at a place of Nodes, from 0.
func (v VIP) Priority(place int) int {
	if place == 0 {
		return BestBackup + 10
	}
	return max(1, BestBackup-backupStep*(place-1))
}

// PeerAdvert is the time between two adverts of the run without the agents.
func (v VIP) PeerAdvert() time.Duration {
	if v.Without == PeerKeepalivedFast {
		return v.Interval
	}
	return time.Second
}

// fill puts defaults in.
func (v VIP) fill() VIP {
	if len(v.Nodes) == 0 {
		return v
	}
	v.Mode, v.Interval = cmp.Or(v.Mode, ModeVRRP), cmp.Or(v.Interval, DefaultAdvert)
	if v.Anycast() {
		return v.fillAnycast()
	}
	v.Without = cmp.Or(v.Without, PeerKeepalived)
	if v.Mode == ModeLease {
		v.Record, v.Policy = cmp.Or(v.Record, RecordEtcd), cmp.Or(v.Policy, "keep")
	}
	return v
}

// Site is where the machines stand.
func (v VIP) Site() string {
	if len(v.Nodes) == 0 {
		return ""
	}
	return siteOf(v.Nodes[0])
}

// siteOf is the site of a node: "a" of "a2".
func siteOf(node string) string { return strings.TrimRight(node, "0123456789") }

// nodesOf lists the nodes of a site.
func (c *Case) nodesOf(site string) []string {
	var names []string
	for _, s := range c.Lab.Sites {
		for i := range max(1, s.Nodes) {
			if s.Name == site {
				names = append(names, fmt.Sprintf("%s%d", site, i+1))
			}
		}
	}
	return names
}

// ClientNode is where the clients of a site stand: on its first node that does
// not hold the address.
func (c *Case) ClientNode(site string) string {
	for _, n := range c.nodesOf(site) {
		if !slices.Contains(c.VIP.Nodes, n) {
			return n
		}
	}
	return site + "1"
}

// Addressed says whether the path leads to the held address.
func (p Path) Addressed() bool { return p.Target == TargetAddress }

// checkVIP refuses an address that nobody can hold.
func (c *Case) checkVIP() error {
	v := c.VIP
	if len(v.Nodes) == 0 {
		if c.Agents.Has(AgentVIP) || c.Agents.Has(AgentFront) {
			return fmt.Errorf("vip.nodes: is empty; name the machines that may hold the address, such as [a2, a3]")
		}
		return nil
	}
	if !c.Agents.Has(AgentVIP) {
		return fmt.Errorf("vip: nobody holds the address; add vip to agents")
	}
	for _, e := range []error{
		c.checkVIPNodes(),
		oneOf("vip.mode", v.Mode, []string{ModeVRRP, ModeLease, ModeAnycast}),
		oneOf("vip.record", v.Record, []string{"", RecordEtcd, RecordKubernetes}),
		oneOf("vip.policy", v.Policy, []string{"", "keep", "drop"}),
		oneOf("vip.health", v.Health, []string{"", HealthAPIServer, HealthFront, HealthPod}),
		oneOf("vip.without", v.Without, v.peers()),
		v.Moves.check("vip.moves"),
		c.checkVIPNeeds(),
		c.checkAnycast(),
	} {
		if e != nil {
			return e
		}
	}
	switch {
	case v.Interval < 10*time.Millisecond || v.Interval > 10*time.Second:
		return fmt.Errorf("vip.interval: %s is out of range; choose 10ms to 10s", v.Interval)
	case v.Gone < 0 || v.TwoHolders != nil && *v.TwoHolders < 0:
		return fmt.Errorf("vip.gone, vip.twoHolders: durations are not negative")
	}
	return nil
}

func (c *Case) checkVIPNodes() error {
	if len(c.VIP.Nodes) < 2 || len(c.VIP.Nodes) > 20 {
		return fmt.Errorf("vip.nodes: %d machines; name 2 to 20", len(c.VIP.Nodes))
	}
	site := c.VIP.Site()
	if err := oneOf("vip.nodes[0]", site, c.SiteNames()); err != nil {
		return err
	}
	for i, n := range c.VIP.Nodes {
		if err := oneOf(fmt.Sprintf("vip.nodes[%d]", i), n, c.nodesOf(site)); err != nil {
			return err
		}
		if slices.Contains(c.VIP.Nodes[:i], n) {
			return fmt.Errorf("vip.nodes[%d]: %q is given twice; name each machine once", i, n)
		}
	}
	if slices.Contains(c.VIP.Nodes, c.ClientNode(site)) {
		return fmt.Errorf("vip.nodes: no node of site %s is left for its clients; give the site one more", site)
	}
	if c.VIP.Health == HealthAPIServer && !slices.Equal(c.VIP.Nodes, c.nodesOf(site)[:len(c.VIP.Nodes)]) {
		return fmt.Errorf("vip.nodes: with health: apiserver they are the first of the site, in order; write [%s]", strings.Join(c.nodesOf(site)[:len(c.VIP.Nodes)], ", "))
	}
	return nil
}

func (c *Case) checkVIPNeeds() error {
	v := c.VIP
	for _, need := range []struct {
		asked, met    bool
		field, remedy string
	}{
		{v.Record != "" || v.Policy != "", v.Mode == ModeLease, "vip.record, vip.policy: there is no lease", "mode: lease"},
		{v.Record == RecordKubernetes || v.ByElection() || v.Health != "", c.APIServers, "vip: there is no apiserver for record, without or health", "apiservers: true"},
		{v.Health == HealthFront, c.Agents.Has(AgentFront), "vip.health: there is no front", "front to agents"},
		{c.Agents.Has(AgentFront), v.Health == HealthFront, "agents: front has no address to serve at", "health: front to vip"},
	} {
		if need.asked && !need.met {
			return fmt.Errorf("%s; add %s", need.field, need.remedy)
		}
	}
	return nil
}

// checkPower refuses to switch off what is no node, and to ask for a release whom
// there is nothing to ask for.
func (c *Case) checkPower(f Step) error {
	for _, node := range f.Off {
		var all []string
		for _, site := range c.SiteNames() {
			all = append(all, c.nodesOf(site)...)
		}
		if err := oneOf("off", node, all); err != nil {
			return err
		}
	}
	for _, node := range f.Drain {
		if err := oneOf("drain", node, c.VIP.Nodes); err != nil {
			return err
		}
		if !c.Kubernetes {
			return fmt.Errorf("drain: there are no pods; add kubernetes: true")
		}
	}
	for _, target := range f.Release {
		procs, err := c.Resolve(target)
		if err != nil {
			return err
		}
		if len(procs) != 1 || procs[0].Kind() != AgentVIP || !procs[0].Agent {
			return fmt.Errorf("release: %q holds no address; write agent:vip/NODE", target)
		}
	}
	return nil
}

// checkAddressed refuses a path to an address that does not serve it.
func (c *Case) checkAddressed(at string, p Path) error {
	switch {
	case !p.Addressed():
		if p.Kind == KindUDP || p.Kind == KindEcho {
			return fmt.Errorf("%s.targets: %s asks the held address alone; write targets: [address]", at, p.Kind)
		}
	case len(c.VIP.Nodes) == 0:
		return fmt.Errorf("%s.targets: nobody holds an address; add vip", at)
	case (p.Kind == kindWeb) != c.VIP.Pods():
		return fmt.Errorf("%s.kinds: web and vip.health: pod go together; write both or neither", at)
	case p.Kind == kindWeb && p.Site != c.VIP.Site():
		return fmt.Errorf("%s.sites: clients stand at the router of the machines; write sites: [%s]", at, c.VIP.Site())
	case p.Kind == kindWeb:
	case IsAPI(p.Kind) && c.VIP.Health == "":
		return fmt.Errorf("%s.kinds: no apiserver serves at the address; add health to vip, or choose udp or echo", at)
	case !IsAPI(p.Kind) && p.Kind != KindUDP && p.Kind != KindEcho:
		return fmt.Errorf("%s.kinds: the address serves no %s; choose one of udp, echo, %s", at, p.Kind, strings.Join(apiKinds, ", "))
	}
	return nil
}

// leastInterval is the shortest time between two samples of a path: a datagram
// costs little enough for outages of milliseconds.
func (p Path) leastInterval() time.Duration {
	if p.Kind == KindUDP {
		return 2 * time.Millisecond
	}
	return 10 * time.Millisecond
}

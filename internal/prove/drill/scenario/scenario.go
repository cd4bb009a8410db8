package scenario

import (
	"time"
)

// Version is the schema version of a scenario file.
const Version = 1

// Scenario is a drill as written in YAML.
type Scenario struct {
	Version int    `yaml:"version"`
	Name    string `yaml:"name"`
	Title   string `yaml:"title"`
	// About says what is shown and why it matters, for `drill plan`.
	About string `yaml:"about,omitempty"`
	Lab   Lab    `yaml:"lab,omitempty"`
	// Clusters are the etcd clusters of the lab, one member per site each.
	Clusters []Cluster `yaml:"clusters,omitempty"`
	// APIServers puts a kube-apiserver into every site, stored in that site's
	// member of the first cluster alone. EtcdCheck is how long each of its two
	// checks of /readyz waits for etcd; 0 is upstream's 2 s.
	APIServers bool          `yaml:"apiservers,omitempty"`
	EtcdCheck  time.Duration `yaml:"etcdCheck,omitempty"`
	// Kubernetes adds the rest to the apiservers: controller manager, scheduler,
	// kubelet and kube-proxy in every site, and a pod for the clients there.
	Kubernetes bool `yaml:"kubernetes,omitempty"`
	// Storage is where the apiservers store: own (the member of their site alone,
	// the default) or list (every member). In a run with the agent etcd-balance
	// they store through the balancer of their node instead.
	Storage string `yaml:"storage,omitempty"`
	// Gateway lists the sites that have a pod of the Service echo and a proxy with
	// the endpoints of all zones as upstreams.
	Gateway []string `yaml:"gateway,omitempty"`
	// Agents names the agents of the `with` runs (default leader).
	Agents Agents `yaml:"agents,omitempty"`
	// Alone leaves out the run without the agents, for a fault that hits nothing
	// but them.
	Alone bool `yaml:"alone,omitempty"`
	// Remedy says how the two runs differ where that is no agent.
	Remedy  Remedy  `yaml:"remedy,omitempty"`
	Balance Balance `yaml:"balance,omitempty"`
	Slices  Slices  `yaml:"slices,omitempty"`
	// VIP is an address that several machines may hold.
	VIP VIP `yaml:"vip,omitempty"`
	// Pair is an etcd of two members.
	Pair Pair `yaml:"pair,omitempty"`
	// Service is one with pods of its own, which clients in pods ask.
	Service Service `yaml:"service,omitempty"`
	// Stores are stores of log lines, one per zone in the one run and one in shards
	// in the other.
	Stores Stores `yaml:"stores,omitempty"`
	// NodesReady wants every Node to stay Ready in the run with the agents.
	NodesReady bool    `yaml:"nodesReady,omitempty"`
	Phases     Phases  `yaml:"phases,omitempty"`
	Faults     []Step  `yaml:"faults"`
	Paths      []Paths `yaml:"paths,omitempty"`
	// Expect is matched top down; the first that fits a path judges it, and a
	// path that fits none is shown without being judged.
	Expect  []Expectation `yaml:"expect"`
	Moves   Moves         `yaml:"moves,omitempty"`
	Compare *Compare      `yaml:"compare,omitempty"`
	// Variants are starting positions. The first is the main one.
	Variants []Variant `yaml:"variants"`
}

// Lab is the network. Preset names a ready one (lan, rtt, one-way; default
// rtt); Sites and Links replace its parts when given.
type Lab struct {
	Preset string `yaml:"preset,omitempty"`
	Sites  []Site `yaml:"sites,omitempty"`
	Links  []Link `yaml:"links,omitempty"`
}

// Site is a place with a power feed.
type Site struct {
	Name string `yaml:"name"`
	Zone string `yaml:"zone,omitempty"`
	// Nodes is how many stand in the site (default 1); the first has the servers.
	Nodes int `yaml:"nodes,omitempty"`
	// Witness marks a site that votes and carries no workload.
	Witness bool `yaml:"witness,omitempty"`
}

// Link joins two sites; Delay is one way.
type Link struct {
	A      string        `yaml:"a"`
	B      string        `yaml:"b"`
	Delay  time.Duration `yaml:"delay,omitempty"`
	Jitter time.Duration `yaml:"jitter,omitempty"`
	// Mbit is the rate in Mbit/s, 0 unlimited; Loss is a share from 0 to 1.
	Mbit uint64  `yaml:"mbit,omitempty"`
	Loss float64 `yaml:"loss,omitempty"`
}

// Cluster is one etcd cluster with a member in every site.
type Cluster struct {
	Name string `yaml:"name"`
	// Sites are those that have a member (default all).
	Sites      []string `yaml:"sites,omitempty"`
	ClientPort int      `yaml:"clientPort,omitempty"`
	PeerPort   int      `yaml:"peerPort,omitempty"`
	// Heartbeat and Election default to etcd's own 100 ms and 1 s.
	Heartbeat time.Duration `yaml:"heartbeat,omitempty"`
	Election  time.Duration `yaml:"election,omitempty"`
}

// Phases are the durations of a run. Baseline must be clean before anything
// is broken, Hold keeps the fault in force, Settle watches after the heal.
type Phases struct {
	Baseline time.Duration `yaml:"baseline,omitempty"`
	Hold     time.Duration `yaml:"hold,omitempty"`
	Settle   time.Duration `yaml:"settle,omitempty"`
}

// Step is something broken at a moment after the start of the hold. All parts
// of a step are injected together. It is undone after For, or at the heal.
type Step struct {
	Name string        `yaml:"name"`
	At   time.Duration `yaml:"at,omitempty"`
	Cuts []Cut         `yaml:"cuts,omitempty"`
	// Slow makes the way between two sites worse without cutting it.
	Slow []Slow `yaml:"slow,omitempty"`
	// Kill, Pause and Stop name a site ("b": its servers and agents), one
	// member ("main/b"), one apiserver ("apiserver/b") or one agent
	// ("agent:main/b", "agent:balance/b", "agent:vip/a2").
	Kill  []string `yaml:"kill,omitempty"`
	Pause []string `yaml:"pause,omitempty"`
	Stop  []string `yaml:"stop,omitempty"`
	// Unready names apiservers ("apiserver/b") that lose their etcd member and
	// nothing else: they run and listen, and /readyz fails.
	Unready []string `yaml:"unready,omitempty"`
	// SlowDisk names members ("main/b") of whose disk every sync takes at least Sync,
	// and nothing else takes longer.
	SlowDisk []string      `yaml:"slowDisk,omitempty"`
	Sync     time.Duration `yaml:"sync,omitempty"`
	// Off names nodes that lose their power: every frame at their port is dropped,
	// their processes are killed, and what comes back has forgotten the addresses
	// and rules that it had.
	Off []string `yaml:"off,omitempty"`
	// Release names agents of vip that are asked to hand over; in a run without
	// the agents they are stopped.
	Release []string `yaml:"release,omitempty"`
	// Drain names machines of vip that are cordoned and whose pods are evicted, as
	// `kubectl drain` does.
	Drain []string `yaml:"drain,omitempty"`
	// Freeze names pods of the Service ("web-b-1") whose program stands still: the
	// kernel goes on accepting for it. Delete names those that are deleted and come
	// back when the step is undone.
	Freeze []string `yaml:"freeze,omitempty"`
	Delete []string `yaml:"delete,omitempty"`
	// Claim names sites of a pair whose member a person lets serve alone, until the
	// step is undone; GiveUp the same with --accept-data-loss. In a run without the
	// agents nobody can.
	Claim  []string `yaml:"claim,omitempty"`
	GiveUp []string `yaml:"giveUp,omitempty"`
	// For is how long it lasts and Every its period: together a flap.
	For   time.Duration `yaml:"for,omitempty"`
	Every time.Duration `yaml:"every,omitempty"`
}

// Cut breaks a link, a whole site or a node. To is empty for a whole site.
type Cut struct {
	From string `yaml:"from"`
	To   string `yaml:"to,omitempty"`
	// OneWay drops only packets travelling From → To; without To, what From
	// sends.
	OneWay bool `yaml:"oneWay,omitempty"`
	// State is all, new or established; Proto all, tcp, udp or vxlan; Action
	// drop, reset or icmp.
	State  string   `yaml:"state,omitempty"`
	Proto  string   `yaml:"proto,omitempty"`
	Ports  []uint16 `yaml:"ports,omitempty"`
	Action string   `yaml:"action,omitempty"`
	// Via makes it a detour: packets From → To travel through the router of this
	// third site, which drops what belongs to no connection that it saw open,
	// while answers come directly. Ping and the handshake work, data does not.
	Via string `yaml:"via,omitempty"`
}

// Paths is a set of client paths: the product of its lists.
type Paths struct {
	// Sites are the clients' sites (default all). Targets are "own" (the server
	// in the client's own site), names of sites, "balance" (the balancer of the
	// client's node), "service" (from a pod to default/kubernetes), "gateway"
	// (the proxy of the client's site) or "address" (the one that is held);
	// default own.
	Sites    []string `yaml:"sites,omitempty"`
	Targets  []string `yaml:"targets,omitempty"`
	Clusters []string `yaml:"clusters,omitempty"`
	// Kinds are put, get (linearizable), serializable, watch for etcd, and what
	// a kubelet asks an apiserver: api-get (its Node), api-put (renew its
	// Lease), api-watch (a Service that changes ten times a second), connect (a TCP
	// handshake with a site's apiserver, as a check that sends nothing has it), and web (a
	// page of the Service behind a gateway); write puts a key of its own each time, which
	// is looked for at the end; of the held address udp (a datagram)
	// and echo (a line over TCP). Modes are new and reused. A watch is always a
	// stream, a datagram and a handshake always new.
	Kinds    []string      `yaml:"kinds,omitempty"`
	Modes    []string      `yaml:"modes,omitempty"`
	Interval time.Duration `yaml:"interval,omitempty"`
	Timeout  time.Duration `yaml:"timeout,omitempty"`
}

// Roles of a path.
const (
	RoleAffected = "affected"
	RoleClean    = "clean"
	RoleControl  = "control"
	RoleInfo     = "info"
)

// Expectation says what the clients of the matching paths may notice.
type Expectation struct {
	// Note says of paths that are not judged why.
	Note string `yaml:"note,omitempty"`
	// Role is affected (whole again within Window while the fault is in
	// force), clean (no gap over Gap), control (must never fail) or info.
	Role  string   `yaml:"role"`
	Sites []string `yaml:"sites,omitempty"`
	// Targets are as in [Paths]: "own" is the server of the client's own site.
	Targets  []string `yaml:"targets,omitempty"`
	Clusters []string `yaml:"clusters,omitempty"`
	Kinds    []string `yaml:"kinds,omitempty"`
	Modes    []string `yaml:"modes,omitempty"`
	// Window names the derivation that allows the outage (see [Windows]);
	// Without is the same for the run without agents, or "never" when the
	// path must stay broken for the whole hold there (else the fault was not
	// felt, and the comparison would prove nothing), "half" when about every
	// second request must be lost, or "any".
	Window  string `yaml:"window,omitempty"`
	Without string `yaml:"without,omitempty"`
	// Unfelt allows the path to notice nothing at all: its Window has no
	// lower bound.
	Unfelt bool `yaml:"unfelt,omitempty"`
	// Gap is the longest allowed gap of a clean path (default 1 s).
	Gap time.Duration `yaml:"gap,omitempty"`
	// Failed and Gaps are how many requests of a clean path may fail, and how
	// often it may be interrupted, while the faults are in force; nil allows any
	// number that Gap does.
	Failed *int `yaml:"failed,omitempty"`
	Gaps   *int `yaml:"gaps,omitempty"`
	// FailedAfter is how many requests sent after the heal may fail; nil asks
	// only that the path is whole in the end.
	FailedAfter *int `yaml:"failedAfter,omitempty"`
	// FailWithin is how soon a request that fails must have failed, while the
	// first fault is in force: a client that is refused at once can do
	// something else. 0 allows a timeout.
	FailWithin time.Duration `yaml:"failWithin,omitempty"`
}

// Moves bounds the leadership moves that agents may make in one run, over all
// its phases and clusters.
type Moves struct {
	Min int `yaml:"min,omitempty"`
	Max int `yaml:"max"`
}

// Compare asks that the run with agents is nowhere worse than the run without.
type Compare struct {
	// Tolerance is the difference in a path's total outage that says nothing:
	// elections are randomised over one election timeout.
	Tolerance time.Duration `yaml:"tolerance"`
}

// Variant is a starting position. The fields after Leaders replace those of
// the scenario when given.
type Variant struct {
	Name  string `yaml:"name"`
	Title string `yaml:"title,omitempty"`
	// Leaders is the site of the leader per cluster, forced before baseline.
	Leaders    map[string]string `yaml:"leaders"`
	Clusters   []Cluster         `yaml:"clusters,omitempty"`
	APIServers bool              `yaml:"apiservers,omitempty"`
	EtcdCheck  time.Duration     `yaml:"etcdCheck,omitempty"`
	Storage    string            `yaml:"storage,omitempty"`
	Agents     Agents            `yaml:"agents,omitempty"`
	Balance    *Balance          `yaml:"balance,omitempty"`
	Slices     *Slices           `yaml:"slices,omitempty"`
	VIP        *VIP              `yaml:"vip,omitempty"`
	Pair       *Pair             `yaml:"pair,omitempty"`
	Service    *Service          `yaml:"service,omitempty"`
	Remedy     *Remedy           `yaml:"remedy,omitempty"`
	Lab        *Lab              `yaml:"lab,omitempty"`
	Phases     Phases            `yaml:"phases,omitempty"`
	Faults     []Step            `yaml:"faults,omitempty"`
	Paths      []Paths           `yaml:"paths,omitempty"`
	Expect     []Expectation     `yaml:"expect,omitempty"`
	Moves      *Moves            `yaml:"moves,omitempty"`
	Compare    *Compare          `yaml:"compare,omitempty"`
}

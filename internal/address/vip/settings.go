package vip

import (
	"net/netip"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/announce/bgp"
	"github.com/holdfast-ha/holdfast/internal/address/announce/route"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
)

// Settings is vip.yaml. What is left out has the default that sample.yaml
// explains.
type Settings struct {
	Groups []GroupSettings `yaml:"groups"`
	// BGP and Route are how groups are announced that say so.
	BGP   *bgp.Settings  `yaml:"bgp"`
	Route *route.Options `yaml:"route"`
	// Services is about Services of type LoadBalancer; nil: they are not looked after.
	Services *ServicesSettings `yaml:"services"`
	// Table is the name of our nftables tables.
	Table string `yaml:"table"`
	// Control is the unix socket where a release is asked for; "" is none.
	Control string `yaml:"control"`
	// Realtime runs the agent before every ordinary process; see package realtime.
	Realtime  bool               `yaml:"realtime"`
	Telemetry telemetry.Settings `yaml:"telemetry"`
	Log       telemetry.Log      `yaml:"log"`

	services servicesFlags
}

// GroupSettings are addresses that are held by one machine at a time, together.
type GroupSettings struct {
	Name      string   `yaml:"name"`
	Addresses []string `yaml:"addresses"`
	// Interface that has the addresses; "" is that of the route to the first, and
	// lo with anycast.
	Interface string `yaml:"interface"`

	// Exactly one of these says who holds them.
	VRRP    *VRRPSettings    `yaml:"vrrp"`
	Lease   *LeaseSettings   `yaml:"lease"`
	Anycast *AnycastSettings `yaml:"anycast"`

	// Announce says how others learn where the addresses are: arp, bgp, route.
	Announce []string         `yaml:"announce"`
	Health   []HealthSettings `yaml:"health"`
	Hooks    []HookSettings   `yaml:"hooks"`

	addresses []netip.Addr // Addresses, once they are checked
}

// VRRPSettings are a virtual router; see vrrp.Config.
type VRRPSettings struct {
	VRID         int           `yaml:"vrid"`
	Version      int           `yaml:"version"`
	Priority     int           `yaml:"priority"`
	Interval     time.Duration `yaml:"interval"`
	Preempt      bool          `yaml:"preempt"`
	PreemptDelay time.Duration `yaml:"preemptDelay"`
	StartDelay   time.Duration `yaml:"startDelay"`
	Stay         bool          `yaml:"stay"`
	Accept       *bool         `yaml:"accept"`
	VirtualMAC   bool          `yaml:"virtualMAC"`
	// Peers get adverts one by one; none means multicast.
	Peers []string `yaml:"peers"`
	// Sync is a name: groups of one name move together.
	Sync string `yaml:"sync"`

	peers []netip.Addr
}

// LeaseSettings say where the record of the holder is, and who else there is;
// see lease.Config.
type LeaseSettings struct {
	Kubernetes *KubernetesSettings `yaml:"kubernetes"`
	Etcd       *EtcdSettings       `yaml:"etcd"`
	Self       string              `yaml:"self"`
	Peers      []PeerSettings      `yaml:"peers"`
	Duration   time.Duration       `yaml:"duration"`
	Policy     string              `yaml:"policy"`
	KeyFile    string              `yaml:"keyFile"`
}

// KubernetesSettings are a Lease.
type KubernetesSettings struct {
	Servers    []string `yaml:"servers"`
	Kubeconfig string   `yaml:"kubeconfig"`
	Context    string   `yaml:"context"`
	Namespace  string   `yaml:"namespace"`
	Name       string   `yaml:"name"`
}

// EtcdSettings are a key of etcd.
type EtcdSettings struct {
	Endpoints []string `yaml:"endpoints"`
	CA        string   `yaml:"ca"`
	Cert      string   `yaml:"cert"`
	Key       string   `yaml:"key"`
	Record    string   `yaml:"record"`
}

// PeerSettings are one that may hold the addresses.
type PeerSettings struct {
	Name    string `yaml:"name"`
	Address string `yaml:"address"`
}

// AnycastSettings: every healthy machine has the addresses.
type AnycastSettings struct{}

// HealthSettings are one check of the health gate.
type HealthSettings struct {
	Name string `yaml:"name"`
	// Kind is one of package health, or process, file, carrier or bfd.
	Kind       string   `yaml:"kind"`
	Address    string   `yaml:"address"`
	Path       string   `yaml:"path"`
	ServerName string   `yaml:"serverName"`
	CA         string   `yaml:"ca"`
	Cert       string   `yaml:"cert"`
	Key        string   `yaml:"key"`
	TokenFile  string   `yaml:"tokenFile"`
	Command    []string `yaml:"command"`
	Process    string   `yaml:"process"`
	Interface  string   `yaml:"interface"`
	// Interval and Multiplier are those of bfd.
	Interval   time.Duration `yaml:"interval"`
	Multiplier int           `yaml:"multiplier"`
	Period     time.Duration `yaml:"period"`
	Timeout    time.Duration `yaml:"timeout"`
	Rise       int           `yaml:"rise"`
	Fall       int           `yaml:"fall"`
	// Weight is 0 for a check without which the group is given up.
	Weight int `yaml:"weight"`
}

// HookSettings are a program that is told of changes.
type HookSettings struct {
	Command []string      `yaml:"command"`
	On      []string      `yaml:"on"`
	Timeout time.Duration `yaml:"timeout"`
}

// Where things are unless settings say otherwise.
const (
	defaultTable     = "holdfast_vip"
	defaultControl   = "/run/holdfast/vip.sock"
	defaultTelemetry = "127.0.0.1:9389"
	// defaultInterval has a silent holder replaced after 0.3 s and a part.
	defaultInterval = 100 * time.Millisecond
	defaultPriority = 100
	defaultHook     = 5 * time.Second
)

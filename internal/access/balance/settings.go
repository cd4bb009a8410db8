package balance

import (
	"net/netip"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/balance/choose"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
)

// Settings is balance.yaml. What is left out has the default that
// docs/guide/balance.md explains.
type Settings struct {
	// Profile names the timers of checks that set none: default, seed or anchors.
	Profile string `yaml:"profile"`
	// Zone is the zone of this node, for frontends that set none.
	Zone      string     `yaml:"zone"`
	Frontends []Frontend `yaml:"frontends"`
	// Drain is how long connections may go on after SIGTERM or an upgrade
	// before they are reset.
	Drain     time.Duration      `yaml:"drain"`
	Telemetry telemetry.Settings `yaml:"telemetry"`
	// Control is the unix socket of status, drain and upgrade.
	Control string        `yaml:"control"`
	Log     telemetry.Log `yaml:"log"`
}

// Frontend is one set of addresses that clients connect to.
type Frontend struct {
	Name   string   `yaml:"name"`
	Listen []string `yaml:"listen"`
	// FreeBind listens on addresses that this machine does not have (yet): a
	// virtual address that may arrive later.
	FreeBind bool `yaml:"freebind"`
	// AcceptProxy expects a PROXY protocol header from every client, or from
	// those in ProxyFrom alone where that is set.
	AcceptProxy bool           `yaml:"acceptProxy"`
	ProxyFrom   []netip.Prefix `yaml:"proxyFrom"`
	// MaxConns and MaxPerClient limit the connections of each listening
	// address, together and by client address. Above the first, clients wait in
	// the kernel's backlog; above the second they are reset. 0 is no limit.
	MaxConns     int           `yaml:"maxConns"`
	MaxPerClient int           `yaml:"maxPerClient"`
	Queue        QueueSettings `yaml:"queue"`
	Connect      Connect       `yaml:"connect"`
	HelloTimeout time.Duration `yaml:"helloTimeout"`
	// IdleTimeout resets connections on which nothing moved; 0 is never.
	IdleTimeout time.Duration `yaml:"idleTimeout"`
	// MaxAge resets a connection after about this time, when it is quiet; 0 is never.
	MaxAge        time.Duration `yaml:"maxAge"`
	KeepAlive     KeepAlive     `yaml:"keepAlive"`
	UserTimeout   time.Duration `yaml:"userTimeout"`
	SourceAddress netip.Addr    `yaml:"sourceAddress"`
	Pool          `yaml:",inline"`
	// Routes send TLS clients elsewhere by the name they ask for (SNI).
	Routes []Route `yaml:"routes"`
}

// Route is a pool for some server names.
type Route struct {
	// Names are exact ("api.example.org") or one level of wildcard
	// ("*.example.org").
	Names []string `yaml:"names"`
	Pool  `yaml:",inline"`
}

// Pool is a set of backends with how they are found, checked and chosen.
type Pool struct {
	// Zone is the own zone for this pool.
	Zone      string        `yaml:"zone"`
	Backends  Backends      `yaml:"backends"`
	Check     Check         `yaml:"check"`
	Policy    choose.Policy `yaml:"policy"`
	SlowStart time.Duration `yaml:"slowStart"`
	// OnFail, OnShutdown and OnRemove say what becomes of the established
	// connections of a backend that fails, shuts down, or leaves the list.
	OnFail     Cause `yaml:"onFail"`
	OnShutdown Cause `yaml:"onShutdown"`
	OnRemove   Cause `yaml:"onRemove"`
	// DrainTimeout is how long drained connections may go on at most; quiet ones
	// end before.
	DrainTimeout time.Duration `yaml:"drainTimeout"`
	// Spread is over how long resets are spread.
	Spread    time.Duration     `yaml:"spread"`
	Rebalance RebalanceSettings `yaml:"rebalance"`
}

// Backends are the sources of a pool, merged.
type Backends struct {
	Static         []StaticBackend         `yaml:"static"`
	EndpointSlices *EndpointSlicesSettings `yaml:"endpointSlices"`
	DNS            []DNSSettings           `yaml:"dns"`
	File           string                  `yaml:"file"`
	// State is where the last good list is kept; "none" keeps none.
	State     string `yaml:"state"`
	SendProxy int    `yaml:"sendProxy"`
}

// StaticBackend is one backend named in the settings.
type StaticBackend struct {
	Address  string `yaml:"address"`
	Zone     string `yaml:"zone"`
	Weight   int    `yaml:"weight"`
	Backup   bool   `yaml:"backup"`
	MaxConns int    `yaml:"maxConns"`
}

// EndpointSlicesSettings names a Service whose endpoints are backends.
type EndpointSlicesSettings struct {
	Namespace string `yaml:"namespace"`
	Service   string `yaml:"service"`
	// Port is the name of the slice's port; "" is https, or the only one.
	Port string `yaml:"port"`
	// Kubeconfig holds the credentials of discovery; "" is the service account
	// of the pod.
	// Requests go through the own frontend, whatever server it names; that
	// name must be in the apiservers' certificates.
	Kubeconfig string `yaml:"kubeconfig"`
}

// DNSSettings names records that are backends.
type DNSSettings struct {
	// Name is a host name, or with SRV a service name (_https._tcp.example.org).
	Name  string        `yaml:"name"`
	SRV   bool          `yaml:"srv"`
	Port  int           `yaml:"port"`
	Every time.Duration `yaml:"every"`
}

// Check says how a backend proves that it serves.
type Check struct {
	// Kind is https, http, tcp or etcd.
	Kind string `yaml:"kind"`
	Path string `yaml:"path"`
	// ServerName is what the backend's certificate must be valid for; "" is
	// the backend's address.
	ServerName string `yaml:"serverName"`
	CA         string `yaml:"ca"`
	Cert       string `yaml:"cert"`
	Key        string `yaml:"key"`
	TokenFile  string `yaml:"tokenFile"`
	// Anonymous sends no credentials, also where the kubelet's are found.
	Anonymous bool `yaml:"anonymous"`
	// What is 0 is the profile's.
	Period  time.Duration `yaml:"period"`
	Timeout time.Duration `yaml:"timeout"`
	Suspect time.Duration `yaml:"suspect"`
	Rise    int           `yaml:"rise"`
	Fall    int           `yaml:"fall"`
}

// QueueSettings bound the clients that wait for room.
type QueueSettings struct {
	Length  int           `yaml:"length"`
	Timeout time.Duration `yaml:"timeout"`
}

// Connect bounds the search for a backend that takes a client.
type Connect struct {
	// Budget is for all attempts together.
	Budget time.Duration `yaml:"budget"`
	// Stagger is how long an attempt may take before another joins the race.
	Stagger time.Duration `yaml:"stagger"`
	// FirstByte is how long a backend may be silent after a TLS hello before
	// the hello is also sent to another.
	FirstByte time.Duration `yaml:"firstByte"`
}

// KeepAlive is TCP's, on both sides.
type KeepAlive struct {
	Idle     time.Duration `yaml:"idle"`
	Interval time.Duration `yaml:"interval"`
	Count    int           `yaml:"count"`
}

// RebalanceSettings move quiet connections back after a failback, at most
// PerSecond; 0 moves none.
type RebalanceSettings struct {
	PerSecond int `yaml:"perSecond"`
}

// Cause is what becomes of established connections: reset, drain or keep.
type Cause string

// What Cause may be.
const (
	Reset Cause = "reset"
	Drain Cause = "drain"
	Keep  Cause = "keep"
)

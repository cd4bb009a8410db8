package slices

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
)

// Settings is slices.yaml. What is left out has the default that sample.yaml
// explains.
type Settings struct {
	// Node is the name of the Node that this agent runs on; "" is the host's.
	Node string `yaml:"node"`
	// Zone is the node's zone; "" is the label topology.kubernetes.io/zone of
	// its Node.
	Zone string `yaml:"zone"`
	// Addresses are where clients reach the own apiserver, at most one per
	// family; none means the InternalIPs of the Node.
	Addresses []string `yaml:"addresses"`
	Port      int      `yaml:"port"`

	Apiserver ApiserverSettings `yaml:"apiserver"`
	API       APISettings       `yaml:"api"`

	// Witnesses are zones whose apiservers adopt orphaned zones first, best first.
	Witnesses []string `yaml:"witnesses"`
	// GiveBack is how long a zone's own apiserver must be ready without a break
	// before its adopter lets go.
	GiveBack time.Duration `yaml:"giveBack"`
	// Lapse is for how long a node must have given no sign of life before others
	// mark its endpoint unready.
	Lapse time.Duration `yaml:"lapse"`
	// Datapath says who carries service traffic: auto, kube-proxy, cilium or
	// cilium-1.19.
	Datapath string `yaml:"datapath"`

	Path      PathSettings       `yaml:"path"`
	Telemetry telemetry.Settings `yaml:"telemetry"`
	Log       telemetry.Log      `yaml:"log"`
}

// ApiserverSettings say how the own apiserver is asked whether it is ready.
type ApiserverSettings struct {
	URL string `yaml:"url"`
	// ServerName is what its certificate must be valid for.
	ServerName string `yaml:"serverName"`
	CA         string `yaml:"ca"`
	Cert       string `yaml:"cert"`
	Key        string `yaml:"key"`
	TokenFile  string `yaml:"tokenFile"`
	// Anonymous shows no credentials, also where some are found.
	Anonymous bool `yaml:"anonymous"`
	// Identity is the host name by which the apiserver labels its identity
	// Lease; "" is the host's, or else the node's.
	Identity string        `yaml:"identity"`
	Period   time.Duration `yaml:"period"`
	Timeout  time.Duration `yaml:"timeout"`
	Rise     int           `yaml:"rise"`
	Fall     int           `yaml:"fall"`
}

// APISettings say where the agent reads and writes.
type APISettings struct {
	// Servers are asked in this order, on from one that does not answer.
	Servers []string `yaml:"servers"`
	// Kubeconfig holds the credentials; "" is the pod's service account.
	Kubeconfig string `yaml:"kubeconfig"`
	Context    string `yaml:"context"`
}

// PathSettings say how the own node's connections to the Service are watched.
type PathSettings struct {
	// Period is how often one is made; 0 is never.
	Period time.Duration `yaml:"period"`
}

// Where things are unless settings say otherwise.
const (
	// 9384 is `holdfast leader`'s; 9385 and 9386 are left to its kind.
	defaultTelemetry = "127.0.0.1:9387"
	defaultApiserver = "https://127.0.0.1:6443"
	defaultBalancer  = "https://127.0.0.1:7445"
	defaultPort      = 6443
	// With three zones a kube-proxy that knows none is found within two
	// connections on average, and an apiserver does not notice so few.
	defaultPathPeriod = 30 * time.Second
)

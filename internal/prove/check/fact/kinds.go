package fact

import (
	"slices"
	"time"
)

// Webhook is a validating or mutating webhook, one per entry of a configuration.
type Webhook struct {
	Name string
	// Fails says that requests fail where the webhook does not answer
	// (failurePolicy Fail, the default).
	Fails bool
	// Service is namespace/name of who answers; "" for one at a URL.
	Service, URL   string
	TimeoutSeconds int32
	// Resources are those it is asked about, such as "pods" or "*".
	Resources []string
	// Vital says that it is asked about Pods, Nodes, Services or Leases, so that the
	// cluster itself needs its answer.
	Vital bool
}

// CustomGroups are the API groups outside Kubernetes whose objects are kept.
var CustomGroups = []string{
	"cilium.io", "crd.projectcalico.org", "projectcalico.org", "metallb.io", "frrk8s.metallb.io",
	"gateway.networking.k8s.io", "kubeadm.k8s.io", "kubelet.config.k8s.io", "kubeproxy.config.k8s.io",
	"helm.cattle.io", "operator.tigera.io", "monitoring.coreos.com",
}

// Resource is an object of which no type is known here.
type Resource map[string]any

// Get follows keys down to a value; nil where there is none.
func (r Resource) Get(path ...string) any {
	var v any = map[string]any(r)
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

// Text is Get for a string; "" where there is none.
func (r Resource) Text(path ...string) string {
	s, _ := r.Get(path...).(string)
	return s
}

// Outcomes of a Probe.
const (
	// ProbeOK: answered with 200.
	ProbeOK = "ok"
	// ProbeUnauthorized: answered with 401 or 403: it works, and anonymous is off.
	ProbeUnauthorized = "unauthorized"
	// ProbeUnready: answered with another code.
	ProbeUnready = "unready"
	// ProbeSilent: no answer within the time.
	ProbeSilent = "silent"
	// ProbeRefused: the connection was refused or reset.
	ProbeRefused = "refused"
	// ProbeX509: answered, with a certificate that does not fit the address.
	ProbeX509 = "x509"
	// ProbeFailed: anything else, such as a name that does not resolve.
	ProbeFailed = "failed"
)

// ProbeOutcomes lists all outcomes.
var ProbeOutcomes = []string{ProbeOK, ProbeUnauthorized, ProbeUnready, ProbeSilent, ProbeRefused, ProbeX509, ProbeFailed}

// Probe is what answered at an address, over TLS, with no credentials.
type Probe struct {
	// Address is host:port as it was dialled. Role says what the address is for:
	// endpoint, control-plane, service, vip, kubeconfig.
	Address string `json:"address"`
	Role    string `json:"role,omitempty"`
	// From is the node that asked.
	From    string `json:"from,omitempty"`
	Outcome string `json:"outcome"`
	Status  int    `json:"status,omitempty"`
	Error   string `json:"error,omitempty"`
	// The certificate of the server: its names, addresses, and end.
	Names     []string  `json:"names,omitempty"`
	Addresses []string  `json:"addresses,omitempty"`
	Issuer    string    `json:"issuer,omitempty"`
	NotAfter  time.Time `json:"notAfter,omitzero"`
}

// Certified says whether the certificate is for host, an address or a name.
func (p Probe) Certified(host string) bool {
	return slices.Contains(p.Addresses, host) || slices.ContainsFunc(p.Names, func(name string) bool { return matches(name, host) })
}

// Outcomes of a Lookup.
const (
	// LookupOK: answered with addresses.
	LookupOK = "ok"
	// LookupNone: answered that there is no such name, or that it has no address.
	LookupNone = "none"
	// LookupSilent: no answer within the time.
	LookupSilent = "silent"
	// LookupFailed: refused, or answered with an error of the server.
	LookupFailed = "failed"
)

// LookupOutcomes lists all outcomes.
var LookupOutcomes = []string{LookupOK, LookupNone, LookupSilent, LookupFailed}

// Lookup is what one name server answered for one name by which the API is reached.
type Lookup struct {
	Name string `json:"name"`
	// Server is the address that was asked.
	Server string `json:"server"`
	// From is the machine that asked.
	From    string `json:"from,omitempty"`
	Outcome string `json:"outcome"`
	Error   string `json:"error,omitempty"`
	// Addresses are all that the name has, sorted.
	Addresses []string `json:"addresses,omitempty"`
}

// EtcdMember is what a member says of itself and of the cluster.
type EtcdMember struct {
	Name       string   `json:"name"`
	ID         string   `json:"id,omitempty"`
	PeerURLs   []string `json:"peerURLs,omitempty"`
	ClientURLs []string `json:"clientURLs,omitempty"`
	Learner    bool     `json:"learner,omitempty"`
	Leader     bool     `json:"leader,omitempty"`
	// Healthy says that it answered a linearizable read; Error why not.
	Healthy bool   `json:"healthy"`
	Error   string `json:"error,omitempty"`
	Version string `json:"version,omitempty"`
	DBBytes int64  `json:"dbBytes,omitempty"`
	// Alarms are NOSPACE and CORRUPT.
	Alarms []string `json:"alarms,omitempty"`
	// FsyncP99 is the 99th percentile of wal_fsync_duration; 0 where unknown.
	FsyncP99 time.Duration `json:"fsyncP99,omitempty"`
}

// Kubeconfig is one context of a client's kubeconfig.
type Kubeconfig struct {
	// Context is its name; "" for a cluster that no context uses. Current says that
	// it is the one in use.
	Context string
	Current bool
	Server  string
	// TLSServerName overrides the name that the certificate must have.
	TLSServerName string
	Insecure      bool
}

// File is a file of a node, or the output of a command there.
type File struct {
	Node string
	// Path is absolute on the node; for a command it is "!" and its name, such as
	// !vtysh-bgp-summary.json.
	Path string
	Data []byte
	// Mode is that of the file system, 0 where unknown.
	Mode uint32
}

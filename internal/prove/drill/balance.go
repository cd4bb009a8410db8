package drill

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Where the balancer of each node serves clients, and people.
const (
	balanceListen    = "127.0.0.1:7445"
	balanceTelemetry = "127.0.0.1:9445"
)

// balanceConfig is the file of `holdfast balance run --config`.
type balanceConfig struct {
	Profile   string            `yaml:"profile,omitempty"`
	Frontends []balanceFrontend `yaml:"frontends"`
	Telemetry struct {
		Listen string `yaml:"listen"`
	} `yaml:"telemetry"`
	Control string `yaml:"control"`
	Log     struct {
		Format string `yaml:"format"`
	} `yaml:"log"`
}

type balanceFrontend struct {
	Name     string   `yaml:"name"`
	Listen   []string `yaml:"listen"`
	Zone     string   `yaml:"zone,omitempty"`
	Backends struct {
		Static []balanceBackend `yaml:"static"`
		State  string           `yaml:"state"`
	} `yaml:"backends"`
	Check   *balanceCheck   `yaml:"check,omitempty"`
	Connect *balanceConnect `yaml:"connect,omitempty"`
}

type balanceConnect struct {
	Budget    time.Duration `yaml:"budget"`
	Stagger   time.Duration `yaml:"stagger"`
	FirstByte time.Duration `yaml:"firstByte"`
}

// anchorsDial is how long KubePrism and extractedprism wait for a backend to
// accept. They try one backend per client and no second while it is silent.
const anchorsDial = 15 * time.Second

type balanceBackend struct {
	Address string `yaml:"address"`
	Zone    string `yaml:"zone,omitempty"`
}

type balanceCheck struct {
	Kind string `yaml:"kind"`
	Path string `yaml:"path,omitempty"`
	CA   string `yaml:"ca"`
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// balanceConfig is the balancer's in site: the kubelet's certificate, every
// apiserver, and in a run without the agents the profile of what people use,
// which brings its own kind of check.
func (e *engine) balanceConfig(site string) balanceConfig {
	var c balanceConfig
	f := balanceFrontend{Name: "kube-apiserver", Listen: []string{balanceListen}}
	f.Backends.State = "none" // nothing outlives the run
	for _, s := range e.c.SiteNames() {
		b := balanceBackend{Address: e.apiservers[s].Address()}
		if !e.c.Balance.Spread {
			b.Zone = e.c.Zone(s)
		}
		f.Backends.Static = append(f.Backends.Static, b)
	}
	if !e.c.Balance.Spread {
		f.Zone = e.c.Zone(site)
	}
	if !e.agents {
		c.Profile = e.c.Balance.Without
	}
	if c.Profile == scenario.ProfileAnchors {
		f.Connect = &balanceConnect{Budget: anchorsDial, Stagger: anchorsDial, FirstByte: anchorsDial}
	} else {
		pki := e.apiservers[site].PKI()
		f.Check = &balanceCheck{Kind: "https", Path: "/readyz", CA: pki.CA, Cert: pki.KubeletCert, Key: pki.KubeletKey}
	}
	c.Frontends = []balanceFrontend{f}
	c.Telemetry.Listen = balanceTelemetry
	// Relative: the path of a unix socket has room for 107 bytes.
	c.Control = "balance-" + site + ".sock"
	c.Log.Format = "json"
	return c
}

// Where the balancer in front of etcd serves the apiserver of its node, and
// people: the port before is that of etcd's metrics.
const (
	etcdBalanceListen    = "127.0.0.1:2382"
	etcdBalanceTelemetry = "127.0.0.1:9446"
)

// etcdBalanceConfig is the balancer's in site in front of etcd: every member of
// the first cluster, its own preferred, and a check that asks for a leader.
func (e *engine) etcdBalanceConfig(site string) balanceConfig {
	var c balanceConfig
	cluster := e.c.Clusters[0]
	f := balanceFrontend{Name: "etcd", Listen: []string{etcdBalanceListen}, Zone: e.c.Zone(site)}
	f.Backends.State = "none"
	for _, s := range e.c.SiteNames() {
		member := e.members[scenario.Process{Cluster: cluster.Name, Site: s}]
		address := net.JoinHostPort(member.Node().IP().String(), strconv.Itoa(cluster.ClientPort))
		f.Backends.Static = append(f.Backends.Static, balanceBackend{Address: address, Zone: e.c.Zone(s)})
	}
	pki := e.members[scenario.Process{Cluster: cluster.Name, Site: site}].PKI()
	f.Check = &balanceCheck{Kind: "etcd", CA: pki.CA, Cert: pki.ClientCert, Key: pki.ClientKey}
	c.Frontends = []balanceFrontend{f}
	c.Telemetry.Listen = etcdBalanceTelemetry
	c.Control = "etcd-balance-" + site + ".sock"
	c.Log.Format = "json"
	return c
}

// balanceWords say how a balancer with a profile checks; "" is its own.
func balanceWords(profile string) string {
	switch profile {
	case scenario.ProfileAnchors:
		return "balancers that check by TCP connect every 20 s with 15 s of patience and reset nothing (profile anchors)"
	case scenario.ProfileSeed:
		return "balancers that ask /readyz every 5 s with 3 s of patience (profile seed)"
	case scenario.ProfileHAProxy:
		return "HAProxy whose check is a TCP connect every 3 s that has to fail three times"
	case scenario.ProfileNone:
		return "no balancers; kubelet and kube-proxy ask the apiserver of their own site"
	}
	return "balancers with their defaults"
}

// balanceEvents maps the messages of the balancer to kinds of events.
var balanceEvents = map[string]string{
	"backend changed":   record.KindGraded,
	"connections reset": record.KindReset,
}

func balanceMessage(msg string, keys map[string]string) string {
	if msg == "connections reset" {
		return fmt.Sprintf("%s connections to %s reset: %s", keys["count"], keys["backend"], keys["cause"])
	}
	return fmt.Sprintf("%s is %s, was %s: %s", keys["backend"], keys["to"], keys["from"], keys["reason"])
}

// keepStatus leaves what each balancer says of itself at the end of the fault
// beside its log, for people.
func (e *engine) keepStatus(ctx context.Context) {
	for _, p := range e.agentProcesses() {
		if !p.IsBalancer() || e.balancedByHAProxy() {
			continue
		}
		text, err := e.askStatus(ctx, p.Site)
		if err != nil {
			e.log.Warn("balancer does not say its status", "site", p.Site, "error", err)
			continue
		}
		path := strings.TrimSuffix(e.w.LogPath(agentName(p)), ".log") + "-status.json"
		if err := os.WriteFile(path, text, 0o644); err != nil {
			e.log.Warn("status of balancer not kept", "error", err)
		}
	}
}

// statusPatience keeps a balancer that hangs from delaying the heal.
const statusPatience = time.Second

func (e *engine) askStatus(ctx context.Context, site string) ([]byte, error) {
	node, err := e.nodeOf(site)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DialContext: node.DialContext, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+balanceTelemetry+"/status", nil)
	if err != nil {
		return nil, fmt.Errorf("ask balancer of %s: %w", site, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask balancer of %s: %w", site, err)
	}
	defer func() { _ = resp.Body.Close() }()
	return io.ReadAll(io.LimitReader(resp.Body, 1<<20))
}

package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

const (
	vipGroup     = "drill"
	vipRouter    = 51
	vipTelemetry = "127.0.0.1:9389"
	// vipPeerPort is where the agents of a lease hear one another.
	vipPeerPort = "9390"
)

// vipConfig is the file of `holdfast vip run --config`.
type vipConfig struct {
	Groups    []vipGroupConfig `yaml:"groups,omitempty"`
	Services  *vipServices     `yaml:"services,omitempty"`
	BGP       *vipBGP          `yaml:"bgp,omitempty"`
	Control   string           `yaml:"control"`
	Telemetry struct {
		Listen string `yaml:"listen"`
	} `yaml:"telemetry"`
	Log struct {
		Format string `yaml:"format"`
	} `yaml:"log"`
}

type vipGroupConfig struct {
	Name      string      `yaml:"name"`
	Addresses []string    `yaml:"addresses"`
	Interface string      `yaml:"interface"`
	VRRP      *vipVRRP    `yaml:"vrrp,omitempty"`
	Anycast   *struct{}   `yaml:"anycast,omitempty"`
	Announce  []string    `yaml:"announce,omitempty"`
	Lease     *vipLease   `yaml:"lease,omitempty"`
	Health    []vipHealth `yaml:"health,omitempty"`
}

type vipVRRP struct {
	VRID     int           `yaml:"vrid"`
	Priority int           `yaml:"priority"`
	Interval time.Duration `yaml:"interval"`
}

type vipLease struct {
	Kubernetes *vipKubernetes `yaml:"kubernetes,omitempty"`
	Etcd       *vipEtcd       `yaml:"etcd,omitempty"`
	Self       string         `yaml:"self"`
	Peers      []vipPeer      `yaml:"peers"`
	Policy     string         `yaml:"policy"`
}

type vipKubernetes struct {
	Servers    []string `yaml:"servers"`
	Kubeconfig string   `yaml:"kubeconfig"`
}

type vipEtcd struct {
	Endpoints []string `yaml:"endpoints"`
	CA        string   `yaml:"ca"`
	Cert      string   `yaml:"cert"`
	Key       string   `yaml:"key"`
}

type vipPeer struct {
	Name    string `yaml:"name"`
	Address string `yaml:"address"`
}

type vipHealth struct {
	Name       string `yaml:"name"`
	Kind       string `yaml:"kind"`
	Address    string `yaml:"address"`
	Path       string `yaml:"path,omitempty"`
	ServerName string `yaml:"serverName,omitempty"`
	CA         string `yaml:"ca,omitempty"`
	Cert       string `yaml:"cert,omitempty"`
	Key        string `yaml:"key,omitempty"`
}

// apiserverName is what certificates of apiservers carry, whatever address leads
// to them.
const apiserverName = "kubernetes.default.svc"

// vipConfig is the agent's on a machine.
func (e *engine) vipConfig(p scenario.Process) vipConfig {
	var c vipConfig
	v := e.c.VIP
	g := vipGroupConfig{Name: vipGroup, Addresses: []string{e.heldAddress().String()}, Health: e.vipHealth(p.Node)}
	if node, err := e.lab.Node(p.Node); err == nil {
		g.Interface = node.Interface()
	}
	switch v.Mode {
	case scenario.ModeLease:
		g.Lease = e.vipLease(p.Node)
	case scenario.ModeVRRP:
		g.VRRP = &vipVRRP{VRID: vipRouter, Priority: v.Priority(slices.Index(v.Nodes, p.Node)), Interval: v.Interval}
	}
	c.Groups = []vipGroupConfig{g}
	if v.Anycast() {
		e.announceConfig(&c, p.Node)
	}
	c.Control = e.controlSocket(p)
	c.Telemetry.Listen = vipTelemetry
	c.Log.Format = "json"
	return c
}

// controlSocket is where a release is asked of an agent, "" in a case without one.
func (e *engine) controlSocket(p scenario.Process) string {
	if e.sockets == "" {
		return ""
	}
	return filepath.Join(e.sockets, "vip-"+p.Node+".sock")
}

// makeSockets makes a directory for sockets if the case asks for a release. It is
// not in the record: the path of a unix socket has room for 107 bytes.
func (e *engine) makeSockets() (err error) {
	asks := func(s scenario.Step) bool { return len(s.Release) > 0 }
	if !e.agents || !slices.ContainsFunc(e.c.Faults, asks) {
		return nil
	}
	if e.sockets, err = os.MkdirTemp("", "holdfast-drill-"); err != nil {
		return fmt.Errorf("make directory of sockets: %w", err)
	}
	return nil
}

func (e *engine) vipLease(self string) *vipLease {
	l := &vipLease{Self: self, Policy: e.c.VIP.Policy}
	for _, name := range e.c.VIP.Nodes {
		if node, err := e.lab.Node(name); err == nil {
			l.Peers = append(l.Peers, vipPeer{name, net.JoinHostPort(node.IP().String(), vipPeerPort)})
		}
	}
	if e.c.VIP.Record == scenario.RecordKubernetes {
		l.Kubernetes = &vipKubernetes{}
		for _, a := range e.lab.APIServers() {
			l.Kubernetes.Servers = append(l.Kubernetes.Servers, a.URL())
			l.Kubernetes.Kubeconfig = a.PKI().AdminConf
		}
		return l
	}
	l.Etcd = &vipEtcd{}
	for _, site := range e.c.SiteNames() {
		m := e.members[scenario.Process{Cluster: e.c.Clusters[0].Name, Site: site}]
		l.Etcd.Endpoints = append(l.Etcd.Endpoints, m.ClientURL())
		l.Etcd.CA, l.Etcd.Cert, l.Etcd.Key = m.PKI().CA, m.PKI().ClientCert, m.PKI().ClientKey
	}
	return l
}

// vipHealth is what the address depends on at a machine, by checks with their
// defaults: a server that is killed has failed at once, since the kept connection
// of its check ends and the next is refused.
func (e *engine) vipHealth(node string) []vipHealth {
	switch e.c.VIP.Health {
	case scenario.HealthAPIServer:
		pki := e.servers[node].PKI()
		return []vipHealth{{
			Name: "apiserver", Kind: "https", Address: fmt.Sprintf("127.0.0.1:%d", lab.APIServerPort), Path: "/readyz",
			ServerName: apiserverName, CA: pki.CA, Cert: pki.KubeletCert, Key: pki.KubeletKey,
		}}
	case scenario.HealthFront:
		return []vipHealth{{
			Name: "balancer", Kind: "http", Address: frontTelemetry, Path: "/readyz",
		}}
	}
	return nil
}

// vipEvents maps the messages of the agent to kinds of events.
var vipEvents = map[string]string{"state": record.KindHolds}

func vipMessage(_ string, keys map[string]string) string {
	return fmt.Sprintf("the agent is %s, was %s: %s", keys["state"], keys["before"], keys["cause"])
}

// releaseWithin bounds a release: the old holder answers for a second at most
// beside the new one.
const releaseWithin = 10 * time.Second

// release asks an agent to hand over, as a person would. keepalived and its like
// cannot be asked and are stopped.
func (e *engine) release(ctx context.Context, p scenario.Process) error {
	if !e.agents {
		return e.stop(ctx, p)
	}
	ctx, cancel := context.WithTimeout(ctx, releaseWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.exe, "vip", "release", vipGroup, "--control", e.controlSocket(p))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("release: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// States of an agent, in its own words.
const (
	stateActive = "active"
	stateBackup = "backup"
)

// vipStatus is what the agent answers at /status.
type vipStatus struct {
	Groups []struct {
		State  string `json:"state"`
		Fault  string `json:"fault"`
		Holder string `json:"holder"`
	} `json:"groups"`
}

// stands says whether the agent of a machine holds the address, or knows who does.
func (s vipStatus) stands() bool {
	return len(s.Groups) == 1 && s.Groups[0].Fault == "" && (s.Groups[0].State == stateActive || s.Groups[0].State == stateBackup && s.Groups[0].Holder != "")
}

// awaitStanding waits until an agent that has started could take over.
func (e *engine) awaitStanding(ctx context.Context, p scenario.Process) error {
	if e.inPlace(p) {
		return nil
	}
	node, err := e.placeOf(p)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: node.DialContext, DisableKeepAlives: true}, Timeout: time.Second}
	said := ""
	standing := func() bool {
		_, said = ask(ctx, client, "http://"+vipTelemetry+"/status")
		var s vipStatus
		return json.Unmarshal([]byte(said), &s) == nil && s.stands()
	}
	if until(ctx, heldWithin, standing) {
		return nil
	}
	return fmt.Errorf("agent %s neither holds the address nor knows who does after %s: %s", p, heldWithin, said)
}

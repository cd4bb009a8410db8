package collect

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/source"
)

// Roles of addresses that are probed.
const (
	RoleEndpoint     = "endpoint"      // of the Service default/kubernetes
	RoleControlPlane = "control-plane" // a control-plane node's own
	RoleAddress      = "address"       // the one of all apiservers
	RoleService      = "service"       // the Service's
	RoleKubeconfig   = "kubeconfig"    // where the collector itself goes
)

// addresses are those that objects name, host:port by role.
type addresses struct{ roles map[string]string }

func (a *addresses) add(host, port, role string) {
	if host == "" {
		return
	}
	if a.roles == nil {
		a.roles = map[string]string{}
	}
	at := net.JoinHostPort(host, port)
	if a.roles[at] == "" {
		a.roles[at] = role
	}
}

// apiPort is kube-apiserver's own.
const apiPort = "6443"

// object looks at one object for addresses of apiservers.
func (a *addresses) object(kind string, line []byte) {
	switch kind {
	case "EndpointSlice":
		a.slice(line)
	case "Service":
		a.service(line)
	case "Node":
		a.node(line)
	}
}

type named struct {
	Metadata struct {
		Namespace string            `json:"namespace"`
		Name      string            `json:"name"`
		Labels    map[string]string `json:"labels"`
	} `json:"metadata"`
}

func (n named) isKubernetes(name string) bool {
	return n.Metadata.Namespace == "default" && name == "kubernetes"
}

func (a *addresses) slice(line []byte) {
	var s struct {
		named
		Endpoints []struct {
			Addresses []string `json:"addresses"`
		} `json:"endpoints"`
		Ports []struct {
			Port int `json:"port"`
		} `json:"ports"`
	}
	if json.Unmarshal(line, &s) != nil || !s.isKubernetes(s.Metadata.Labels["kubernetes.io/service-name"]) {
		return
	}
	for _, e := range s.Endpoints {
		for _, p := range s.Ports {
			for _, address := range e.Addresses {
				a.add(address, strconv.Itoa(p.Port), RoleEndpoint)
			}
		}
	}
}

func (a *addresses) service(line []byte) {
	var s struct {
		named
		Spec struct {
			ClusterIPs []string `json:"clusterIPs"`
		} `json:"spec"`
	}
	if json.Unmarshal(line, &s) != nil || !s.isKubernetes(s.Metadata.Name) {
		return
	}
	for _, ip := range s.Spec.ClusterIPs {
		a.add(ip, "443", RoleService)
	}
}

func (a *addresses) node(line []byte) {
	var n struct {
		named
		Status struct {
			Addresses []struct {
				Type    string `json:"type"`
				Address string `json:"address"`
			} `json:"addresses"`
		} `json:"status"`
	}
	if json.Unmarshal(line, &n) != nil {
		return
	}
	if _, ok := n.Metadata.Labels["node-role.kubernetes.io/control-plane"]; !ok {
		return
	}
	for _, address := range n.Status.Addresses {
		if address.Type == "InternalIP" {
			a.add(address.Address, apiPort, RoleControlPlane)
		}
	}
}

// configMap finds the one address of all apiservers in kubeadm's settings.
func (a *addresses) configMap(line []byte) {
	var c struct {
		named
		Data map[string]string `json:"data"`
	}
	if json.Unmarshal(line, &c) != nil || c.Metadata.Name != "kubeadm-config" {
		return
	}
	var v struct {
		ControlPlaneEndpoint string `yaml:"controlPlaneEndpoint"`
	}
	if yaml.Unmarshal([]byte(c.Data["ClusterConfiguration"]), &v) == nil && v.ControlPlaneEndpoint != "" {
		host, port, err := net.SplitHostPort(v.ControlPlaneEndpoint)
		if err != nil {
			host, port = strings.Trim(v.ControlPlaneEndpoint, "[]"), apiPort
		}
		a.add(host, port, RoleAddress)
	}
}

// atOnce bounds how many addresses are asked at a time.
const atOnce = 16

// maxProbes bounds how many are asked at all; a control plane has a handful.
const maxProbes = 256

// probe asks every address found and records what answered.
func (c *collector) probe(ctx context.Context, probe Prober) error {
	if probe == nil {
		return nil
	}
	all := slices.Sorted(maps.Keys(c.seen.roles))
	all = all[:min(len(all), maxProbes)]
	probes := make([]fact.Probe, len(all))
	var group sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i, address := range all {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			probes[i] = probe(ctx, address)
			probes[i].Role = c.seen.roles[address]
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.m.States[string(fact.Probes)] = source.Stated{State: fact.Present.String()}
	data, err := json.MarshalIndent(map[string]any{"probes": probes}, "", "  ")
	if err != nil {
		return err
	}
	return c.sink.File("probes.json", append(data, '\n'))
}

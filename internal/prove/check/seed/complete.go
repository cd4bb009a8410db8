package seed

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// Addresses of the lab's cluster. Examples have those.
const (
	serviceAddress = "10.96.0.1"
	apiPort        = "6443"
	clusterRange   = "10.0.0.0/8" // all that examples name
)

// complete makes the objects such as the API takes them, and adds those by which the
// addresses are found that are to be asked.
func (s *Seeding) complete() {
	for _, o := range s.Objects {
		if o.Text("kind") == "CertificateSigningRequest" {
			s.Unmade = "a request has waited for hours by the apiserver's own clock, which gives it its time"
		}
		o.stored()
		o.demanded()
	}
	led := s.led()
	var endpoints []string
	for _, p := range s.Probes {
		switch host := fact.Host(p.Address); {
		case led[p.Address]:
		case p.Role == "endpoint" && ownName(p) != "":
			s.Objects = append(s.Objects, controlPlaneNode(ownName(p), host))
		case p.Role == "endpoint":
			endpoints = append(endpoints, host)
		case p.Role == "address":
			s.Objects = append(s.Objects, kubeadm(p.Address))
		}
	}
	if len(endpoints) > 0 {
		s.Objects = append(s.Objects, published(endpoints))
	}
	if special := specials[s.Rule]; special != nil {
		special(s)
	}
}

// specials are what examples do not say, by rule.
var specials = map[string]func(*Seeding){
	// Its dead endpoint is told from the Nodes in the example.
	"HF-API-006": func(s *Seeding) { s.Silent = append(s.Silent, "10.0.0.14:6443") },
	// Their apiservers publish no endpoints themselves; that nobody does is another
	// rule's mistake.
	"HF-ETCD-003": publishedBesides,
	"HF-ZONE-002": publishedBesides,
	"HF-ETCD-012": func(s *Seeding) {
		for _, o := range s.Objects {
			if containers, _ := o.Get("spec", "containers").([]any); o.Text("kind") == "Pod" && len(containers) > 0 {
				c := Object(containers[0].(map[string]any))
				command, _ := c["command"].([]any)
				c["command"] = append(command, "--quota-backend-bytes="+strconv.Itoa(quota))
			}
		}
	},
}

// quota is that of etcd where its size matters; the default takes minutes to fill.
const quota = 16 << 20

func publishedBesides(s *Seeding) {
	s.Objects = append(s.Objects, published([]string{"10.0.0.11", "10.0.0.12", "10.0.0.13"}))
}

// ownName is the name of the machine that a certificate is for; "" where it says none.
func ownName(p fact.Probe) string {
	for _, name := range p.Names {
		if !strings.Contains(name, ".") && !slices.Contains(goodNames, name) {
			return name
		}
	}
	return ""
}

func controlPlaneNode(name, host string) Object {
	return Object{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name, "labels": map[string]any{"node-role.kubernetes.io/control-plane": ""}},
		"status": map[string]any{"addresses": []any{map[string]any{"type": "InternalIP", "address": host}}},
	}
}

func kubeadm(endpoint string) Object {
	return Object{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "kubeadm-config", "namespace": "kube-system"},
		"data": map[string]any{"ClusterConfiguration": "controlPlaneEndpoint: " + endpoint + "\n"},
	}
}

func published(hosts []string) Object {
	var endpoints []any
	for _, host := range hosts {
		endpoints = append(endpoints, map[string]any{"addresses": []any{host}, "conditions": map[string]any{"ready": true}})
	}
	return Object{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata":  map[string]any{"name": "kubernetes", "namespace": "default", "labels": map[string]any{"kubernetes.io/service-name": "kubernetes"}},
		"ports":     []any{map[string]any{"name": "https", "port": float64(6443), "protocol": "TCP"}},
		"endpoints": endpoints,
	}
}

// led are the addresses, host:port, that objects lead to.
func (s *Seeding) led() map[string]bool {
	all := map[string]bool{net.JoinHostPort(serviceAddress, "443"): true}
	for _, o := range s.Objects {
		switch o.Text("kind") {
		case "Node":
			if o.Get("metadata", "labels", "node-role.kubernetes.io/control-plane") != nil {
				for _, host := range nodeAddresses(o) {
					all[net.JoinHostPort(host, apiPort)] = true
				}
			}
		case "EndpointSlice":
			for _, address := range sliceAddresses(o) {
				all[address] = true
			}
		case "ConfigMap":
			if at := controlPlane(o); at != "" {
				all[at] = true
			}
		}
	}
	return all
}

func nodeAddresses(o Object) []string {
	var all []string
	list, _ := o.Get("status", "addresses").([]any)
	for _, a := range list {
		if m, ok := a.(map[string]any); ok && Object(m).Text("type") == "InternalIP" {
			all = append(all, Object(m).Text("address"))
		}
	}
	return all
}

// sliceAddresses are those of a slice of default/kubernetes.
func sliceAddresses(o Object) []string {
	labels, _ := o.Get("metadata", "labels").(map[string]any)
	ports, _ := o["ports"].([]any)
	if o.Text("metadata", "namespace") != "default" || labels["kubernetes.io/service-name"] != "kubernetes" || len(ports) == 0 {
		return nil
	}
	port, _ := Object(ports[0].(map[string]any))["port"].(float64)
	var all []string
	list, _ := o["endpoints"].([]any)
	for _, e := range list {
		hosts, _ := Object(e.(map[string]any))["addresses"].([]any)
		for _, host := range hosts {
			all = append(all, net.JoinHostPort(host.(string), strconv.Itoa(int(port))))
		}
	}
	return all
}

// controlPlane is the address that kubeadm was given; "" for a name or none.
func controlPlane(o Object) string {
	var v struct {
		ControlPlaneEndpoint string `yaml:"controlPlaneEndpoint"`
	}
	if yaml.Unmarshal([]byte(o.Text("data", "ClusterConfiguration")), &v) != nil {
		return ""
	}
	if _, err := netip.ParseAddrPort(v.ControlPlaneEndpoint); err != nil {
		return ""
	}
	return v.ControlPlaneEndpoint
}

// answers are what the addresses that the audit will ask are to answer: as the
// example has it, or as an apiserver in order does.
func (s *Seeding) answers() map[string]fact.Probe {
	all := map[string]fact.Probe{}
	good := fact.Probe{Outcome: fact.ProbeOK}
	for _, p := range s.Probes {
		good.Names = append(good.Names, p.Names...)
		for _, a := range p.Addresses {
			if ip, err := netip.ParseAddr(a); err == nil && ip.Is4() { // of the other family each has its own
				good.Addresses = append(good.Addresses, a)
			}
		}
	}
	if len(good.Names) == 0 {
		good.Names, good.Addresses = slices.Clone(goodNames), append(good.Addresses, commonAddress)
	}
	for address := range s.led() {
		good.Addresses = append(good.Addresses, fact.Host(address))
	}
	for address := range s.led() {
		all[address] = good
	}
	for _, p := range s.Probes {
		if len(p.Names)+len(p.Addresses) == 0 {
			p.Names, p.Addresses = good.Names, append(slices.Clone(good.Addresses), fact.Host(p.Address))
		}
		all[p.Address] = p
	}
	for _, address := range s.Silent {
		all[address] = fact.Probe{Outcome: fact.ProbeSilent}
	}
	return all
}

// goodNames are those of every apiserver's certificate, and commonAddress is the one
// of all of them.
var goodNames = strings.Fields("kubernetes kubernetes.default kubernetes.default.svc kubernetes.default.svc.cluster.local localhost api.example.org")

const commonAddress = "10.0.0.100"

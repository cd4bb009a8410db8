package certificates

import (
	"fmt"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

var different = rule.Rule{
	ID: "HF-CERT-003", Group: rule.Certificates, Severity: rule.Warning,
	Title: "One apiserver's certificate lacks a name that the others have",
	Needs: []fact.Kind{fact.Probes, fact.Nodes},
	Why: "A server that joined before a name was added, or by other settings, is refused by clients that use the name as soon as the " +
		"address or the balancer leads to it: they fail for a share of connections, or from a move on.",
	Remedy: "give all apiservers the same names beside their own",
	Drill:  "vip-node-silent",
	Check:  checkSame,
}

func checkSame(f *fact.Facts) ([]rule.Finding, error) {
	servers := endpoints(f)
	if len(servers) < 2 {
		return nil, fact.Lacking("fewer than two apiservers showed a certificate by their own addresses")
	}
	known := addresses(f) // HF-CERT-001 speaks of these
	shared := map[string]string{}
	for _, p := range servers {
		for _, host := range slices.Concat(p.Object.Names, p.Object.Addresses) {
			if shared[host] == "" && !ofOneNode(f, host) && !second(servers, p, host) && !slices.Contains(known, host) {
				shared[host] = p.Object.Address
			}
		}
	}
	var all []rule.Finding
	for _, p := range servers {
		for _, q := range servers {
			for _, host := range slices.Concat(q.Object.Names, q.Object.Addresses) {
				if shared[host] == q.Object.Address && !p.Object.Certified(host) {
					all = append(all, lacks(p, q, host))
				}
			}
		}
	}
	return all, nil
}

// endpoints are the handshakes with apiservers by their own addresses, one each.
func endpoints(f *fact.Facts) []fact.Item[fact.Probe] {
	var all []fact.Item[fact.Probe]
	seen := map[string]bool{}
	for _, p := range f.Probes.Items {
		own := p.Object.Role == "endpoint" || p.Object.Role == "control-plane"
		if own && !seen[p.Object.Address] && len(p.Object.Names)+len(p.Object.Addresses) > 0 {
			seen[p.Object.Address] = true
			all = append(all, p)
		}
	}
	return all
}

// ofOneNode says that a name is one machine's own, which others need not have: a
// Node's name or address, or one whose first label is a Node's name.
func ofOneNode(f *fact.Facts, host string) bool {
	label, _, _ := strings.Cut(host, ".")
	if net.ParseIP(host) != nil {
		label = host
	}
	return fact.Loopback(host) || f.NodeOf(host) != nil || f.NodeOf(label) != nil || ownAddress(f, host)
}

// second says that host is a server's own address in the other family: it was not
// asked by it, no Node need state it, and no other server has it.
func second(servers []fact.Item[fact.Probe], of fact.Item[fact.Probe], host string) bool {
	ip, own := net.ParseIP(host), net.ParseIP(fact.Host(of.Object.Address))
	if ip == nil || own == nil || (ip.To4() == nil) == (own.To4() == nil) {
		return false
	}
	return !slices.ContainsFunc(servers, func(p fact.Item[fact.Probe]) bool {
		return p.Object != of.Object && p.Object.Certified(host)
	})
}

// ownAddress says that a server was asked by that address.
func ownAddress(f *fact.Facts, host string) bool {
	return slices.ContainsFunc(f.Probes.Items, func(p fact.Item[fact.Probe]) bool {
		return (p.Object.Role == "endpoint" || p.Object.Role == "control-plane") && fact.Host(p.Object.Address) == host
	})
}

func lacks(p, other fact.Item[fact.Probe], host string) rule.Finding {
	finding := missing(p, host)
	finding.What = fmt.Sprintf("the server at %s has no certificate for %s, which the one at %s has", p.Object.Address, host, other.Object.Address)
	return finding
}

var serviceMissing = rule.Rule{
	ID: "HF-CERT-004", Group: rule.Certificates, Severity: rule.Error,
	Title: "An apiserver's certificate is not for the Service kubernetes",
	Needs: []fact.Kind{fact.Probes, fact.Services},
	Why: "Pods reach the API by the address of the Service default/kubernetes, the first of the Services' range, or by the name " +
		"kubernetes.default.svc. A server whose certificate lacks them refuses its share of all pods' connections.",
	Remedy: "add the Service's address and names to the server's certificate",
	Drill:  "partial-split-kubernetes",
	Check:  checkService,
}

const serviceName = "kubernetes.default.svc"

func checkService(f *fact.Facts) ([]rule.Finding, error) {
	hosts := []string{serviceName}
	for _, s := range f.Services.Items {
		if s.Object.Namespace == "default" && s.Object.Name == "kubernetes" {
			hosts = append(hosts, clusterIPs(s.Object)...)
		}
	}
	if len(hosts) == 1 {
		return nil, fact.Lacking("the Service default/kubernetes is not known")
	}
	servers := endpoints(f)
	if len(servers) == 0 {
		return nil, fact.Lacking("no apiserver showed a certificate by its own address")
	}
	var all []rule.Finding
	for _, p := range servers {
		for _, host := range hosts {
			if p.Object.Certified(host) {
				continue
			}
			finding := missing(p, host)
			finding.Effect = rule.Unending("a pod that is sent to "+p.Object.Address, fmt.Sprintf("1 of %d connections by %s fails with x509", len(servers), host))
			all = append(all, finding)
		}
	}
	return all, nil
}

func clusterIPs(s *corev1.Service) []string {
	if len(s.Spec.ClusterIPs) > 0 {
		return s.Spec.ClusterIPs
	}
	if s.Spec.ClusterIP != "" {
		return []string{s.Spec.ClusterIP}
	}
	return nil
}

package vip

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

// calicoAddresses is the annotation by which Calico is asked for addresses.
const calicoAddresses = "projectcalico.org/loadBalancerIPs"

var plainString = rule.Rule{
	ID: "HF-VIP-012", Group: rule.VIP, Severity: rule.Warning,
	Title: "loadBalancerIPs is no JSON list: the Service waits for an address for ever",
	Needs: []fact.Kind{fact.Services},
	Why: "Calico reads this annotation as a list in JSON. A plain address is not understood, and nothing is said: the Service stays " +
		"pending, or loses its address when it is made again.",
	Remedy: "write the annotation as '[\"ADDRESS\"]'",
	Drill:  "bgp-drain",
	Check:  checkPlainString,
}

func checkPlainString(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	asked := 0
	for _, s := range f.Services.Items {
		value, ok := s.Object.Annotations[calicoAddresses]
		if !ok {
			continue
		}
		asked++
		var list []string
		if json.Unmarshal([]byte(value), &list) == nil {
			continue
		}
		all = append(all, rule.Finding{
			At:     s.At.Field("metadata", "annotations", calicoAddresses),
			What:   fmt.Sprintf("%s is %q", calicoAddresses, value),
			Effect: rule.Unending("making the Service again", "it has no address, and nobody outside reaches it"),
			Remedy: fmt.Sprintf("kubectl -n %s annotate --overwrite service %s '%s=[\"%s\"]'", s.Object.Namespace, s.Object.Name, calicoAddresses, strings.Trim(value, `"[] `)),
		})
	}
	if asked == 0 {
		return nil, fact.NotApplicable("no Service asks Calico for an address")
	}
	return all, nil
}

var twoAgents = rule.Rule{
	ID: "HF-VIP-014", Group: rule.VIP, Severity: rule.Error,
	Title: "Two agents that do not know of each other hold one address",
	OneOf: []fact.Kind{fact.Files, fact.Pods, fact.DaemonSets},
	Why: "An address has one holder as long as one election decides. kube-vip beside keepalived, or the API's address given to a Service " +
		"as well, means two elections with two winners; which one a client reaches is left to ARP (kube-vip#665, #947).",
	Remedy: "leave the address to one of the two",
	Drill:  "vip-agent-frozen",
	Check:  checkTwoAgents,
}

// claim is who holds an address, and where it says so.
type claim struct {
	address, who string
	at           fact.Location
}

// agents lists what kube-vip and keepalived hold.
func agents(f *fact.Facts) []claim {
	var all []claim
	for _, c := range f.Components("kube-vip") {
		if address, _ := c.Env("address"); address != "" && on(c, "cp_enable") {
			for _, a := range strings.Split(address, ",") {
				all = append(all, claim{strings.TrimSpace(a), "kube-vip", c.EnvAt("address")})
			}
		}
	}
	for _, d := range daemons(f) {
		for _, i := range d.instances {
			for _, a := range i.addresses {
				all = append(all, claim{a, "keepalived", i.at})
			}
		}
	}
	return all
}

// services lists what was given to Services of type LoadBalancer.
func services(f *fact.Facts) []claim {
	var all []claim
	for _, s := range f.Services.Items {
		if s.Object.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		for _, ingress := range s.Object.Status.LoadBalancer.Ingress {
			if ingress.IP != "" {
				all = append(all, claim{ingress.IP, "Service " + s.Object.Namespace + "/" + s.Object.Name, s.At})
			}
		}
	}
	return all
}

func checkTwoAgents(f *fact.Facts) ([]rule.Finding, error) {
	held := agents(f)
	if len(held) == 0 {
		return nil, fact.NotApplicable("neither kube-vip nor keepalived holds an address")
	}
	// Services may share an address on purpose, so that the first claim is an agent's.
	first := map[string]claim{}
	for _, c := range held {
		if _, ok := first[c.address]; !ok {
			first[c.address] = c
		}
	}
	var all []rule.Finding
	for _, c := range append(held, services(f)...) {
		have, ok := first[c.address]
		if !ok || have.who == c.who {
			continue
		}
		all = append(all, rule.Finding{
			At: c.at, Key: c.address + "/" + c.who,
			What:   fmt.Sprintf("%s is held by %s and by %s (%s)", c.address, c.who, have.who, have.at),
			Effect: rule.Unending("as it is set up", "two machines may answer for "+c.address),
			Remedy: fmt.Sprintf("# take %s out of the settings of %s, or give that another address", c.address, c.who),
		})
	}
	return all, nil
}

package certificates

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

// Rules lists the rules of the group.
func Rules() []rule.Rule {
	return []rule.Rule{nameMissing, ended, different, serviceMissing, untrusting, endsSoon, kubeletEnds, authorityEnds, requestsWait}
}

var nameMissing = rule.Rule{
	ID: "HF-CERT-001", Group: rule.Certificates, Severity: rule.Error,
	Title: "A certificate is not for an address that clients use",
	Needs: []fact.Kind{fact.Probes},
	Why: "Clients that reach this server by the address refuse it (x509: certificate is valid for …, not …). Where the address moves " +
		"between machines, that is seen only once it has moved to this one.",
	Remedy: "add the address to the names of the server's certificate",
	Drill:  "vip-node-silent",
	Check:  checkNames,
}

func checkNames(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	seen := 0
	wanted := addresses(f)
	for _, p := range f.Probes.Items {
		if len(p.Object.Names)+len(p.Object.Addresses) == 0 {
			continue // nothing was shown: silent, or refused
		}
		seen++
		hosts := wanted
		if own := fact.Host(p.Object.Address); !slices.Contains(hosts, own) {
			hosts = append(slices.Clone(hosts), own)
		}
		for _, host := range hosts {
			if !p.Object.Certified(host) {
				all = append(all, missing(p, host))
			}
		}
	}
	if seen == 0 {
		return nil, fact.Lacking("no address showed a certificate when the handshakes were recorded")
	}
	return all, nil
}

// addresses are those by which clients may reach any apiserver: the one of all of
// them, and what kubeconfigs and components say, but for single nodes' own.
func addresses(f *fact.Facts) []string {
	var all []string
	for _, r := range f.APIReferences() {
		if r.Host != "" && !fact.Loopback(r.Host) && f.NodeOf(r.Host) == nil && !slices.Contains(all, r.Host) {
			all = append(all, r.Host)
		}
	}
	return all
}

func missing(p fact.Item[fact.Probe], host string) rule.Finding {
	has := append(slices.Clone(p.Object.Names), p.Object.Addresses...)
	return rule.Finding{
		At: p.At, Key: p.Object.Address + " " + host,
		What: fmt.Sprintf("the server at %s has a certificate for %s, not for %s", p.Object.Address, strings.Join(has, ", "), host),
		Effect: rule.Unending("a client that reaches "+p.Object.Address+" by "+host,
			"every connection fails with x509"),
		Remedy: fmt.Sprintf("# ClusterConfiguration: apiServer: {certSANs: [\"%s\"]}; then, one control-plane node after the other:\n"+
			"mv /etc/kubernetes/pki/apiserver.{crt,key} /tmp/ && kubeadm init phase certs apiserver --config kubeadm.yaml && crictl pods --name kube-apiserver -q | xargs crictl stopp", host),
	}
}

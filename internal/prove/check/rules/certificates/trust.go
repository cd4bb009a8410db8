package certificates

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

var untrusting = rule.Rule{
	ID: "HF-CERT-005", Group: rule.Certificates, Severity: rule.Warning,
	Title: "A client does not check the apiserver's certificate",
	OneOf: []fact.Kind{fact.Kubeconfigs, fact.Pipelines},
	Why: "insecure-skip-tls-verify is what a missing name in the certificate is mostly answered with. An address that moves is taken by " +
		"whoever claims it, and such a client gives its token to any machine that does.",
	Remedy: "add the name to the certificate, and take the setting out",
	Drill:  "vip-agent-frozen",
	Check:  checkTrust,
}

func checkTrust(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	for _, k := range f.Kubeconfigs.Items {
		c := k.Object
		if !c.Insecure || fact.Loopback(fact.Host(c.Server)) {
			continue
		}
		all = append(all, rule.Finding{
			At: k.At, Key: c.Context + " " + c.Server,
			What:   fmt.Sprintf("context %s takes any certificate from %s", c.Context, c.Server),
			Effect: rule.Unending("a foreign machine that has the address", "the client sends it its credentials"),
			Remedy: fmt.Sprintf("kubectl config set-cluster CLUSTER --server=%s --insecure-skip-tls-verify=false --certificate-authority=ca.crt --embed-certs\n"+
				"holdfast check path %s   # whether the certificate has the name", c.Server, c.Server),
		})
	}
	for _, p := range f.Pipelines.Items {
		for i, line := range strings.Split(string(p.Object.Data), "\n") {
			if skips(line) {
				all = append(all, rule.Finding{
					At: p.At.LineIn(i + 1), Key: p.Object.Path, What: p.Object.Path + " takes any certificate",
					Effect: rule.Unending("a foreign machine that has the address", "the pipeline sends it its credentials"),
					Remedy: "--certificate-authority=ca.crt   # instead of --insecure-skip-tls-verify",
				})
			}
		}
	}
	return all, nil
}

// skips says that a line of a script, which is no comment, does not check.
func skips(line string) bool {
	_, after, ok := strings.Cut(line, "insecure-skip-tls-verify")
	return ok && !strings.HasPrefix(strings.TrimSpace(line), "#") && !strings.HasPrefix(strings.TrimLeft(after, "=: "), "false")
}

var kubeletEnds = rule.Rule{
	ID: "HF-CERT-007", Group: rule.Certificates, Severity: rule.Warning,
	Title: "A kubelet does not renew its certificate",
	Needs: []fact.Kind{fact.Files},
	Why: "A kubelet's certificate for the API ends a year after the node joined. Without rotateCertificates it asks for no other, and " +
		"nodes that were set up together turn NotReady together.",
	Remedy: "set rotateCertificates: true in the kubelet's settings",
	Drill:  "site-loss",
	Check:  checkKubelets,
}

const kubeletSettings = "/var/lib/kubelet/config.yaml"

func checkKubelets(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	files := f.FilesAt(kubeletSettings)
	for _, file := range files {
		var v struct {
			Rotate bool `yaml:"rotateCertificates"`
		}
		if err := yaml.Unmarshal(file.Object.Data, &v); err != nil {
			return nil, fact.Lacking("%s of node %s is not YAML", kubeletSettings, file.Object.Node)
		}
		if v.Rotate || flagged(f, file.Object.Node) {
			continue
		}
		all = append(all, rule.Finding{
			At: file.At, Key: file.Object.Node,
			What:   fmt.Sprintf("the kubelet of %s has no rotateCertificates", file.Object.Node),
			Effect: rule.Unending("the end of its certificate, a year after it joined", "node "+file.Object.Node+" is NotReady"),
			Remedy: fmt.Sprintf("sed -i '/^rotateCertificates:/d' %[1]s && echo 'rotateCertificates: true' >> %[1]s && systemctl restart kubelet   # on %[2]s", kubeletSettings, file.Object.Node),
		})
	}
	if len(files) == 0 {
		return nil, fact.NotApplicable("no kubelet with settings in %s", kubeletSettings)
	}
	return all, nil
}

// flagged says that a node's kubelet is told so by a flag, which counts more.
func flagged(f *fact.Facts, node string) bool {
	for _, name := range []string{"/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet", "/etc/sysconfig/kubelet"} {
		if file, _ := f.FileOf(node, name); file != nil && strings.Contains(string(file.Object.Data), "--rotate-certificates") {
			return true
		}
	}
	return false
}

var authorityEnds = rule.Rule{
	ID: "HF-CERT-008", Group: rule.Certificates, Severity: rule.Warning,
	Title: "The cluster's certificate authority ends within half a year",
	OneOf: []fact.Kind{fact.ConfigMaps, fact.Files},
	Why: "All certificates of the cluster are refused when their authority ends, and nothing renews it: kubeadm and k3s give it ten years " +
		"and never touch it again. Replacing it takes two rounds over every node and every client, with both authorities trusted between.",
	Remedy: "plan the change of the authority now",
	Drill:  "site-loss",
	Check:  checkAuthority,
}

// planned is what two rounds over all nodes and clients take people.
const planned = 182 * day

func checkAuthority(f *fact.Facts) ([]rule.Finding, error) {
	if f.Collected.IsZero() {
		return nil, fact.Lacking("nobody knows when the facts were collected")
	}
	var all []rule.Finding
	seen := map[string]bool{}
	for _, a := range authorities(f) {
		if id := string(a.certificate.Raw); seen[id] {
			continue
		} else {
			seen[id] = true
		}
		left := a.certificate.NotAfter.Sub(f.Collected)
		if left > planned {
			continue
		}
		date := a.certificate.NotAfter.UTC().Format(time.DateOnly)
		all = append(all, rule.Finding{
			At: a.at, Key: a.certificate.Subject.CommonName,
			What:   fmt.Sprintf("the authority %q ends on %s, in %d days", a.certificate.Subject.CommonName, date, left/day),
			Effect: rule.Unending("its end on "+date, "every server and client of the cluster is refused"),
			Remedy: "# make a second authority beside the first, and trust both: cat new-ca.crt >> /etc/kubernetes/pki/ca.crt on every control-plane node, --client-ca-file and --root-ca-file;\n" +
				"# then certificates of the new one, node after node (kubeadm certs renew all), then take the old one out",
		})
	}
	if len(seen) == 0 {
		return nil, fact.Lacking("neither cluster-info nor a kubelet's kubeconfig has a certificate authority")
	}
	return all, nil
}

type authority struct {
	certificate *x509.Certificate
	at          fact.Location
}

// authorities are those that clients are told to trust.
func authorities(f *fact.Facts) []authority {
	var all []authority
	for _, cm := range f.ConfigMaps.Items {
		if cm.Object.Namespace == "kube-public" && cm.Object.Name == "cluster-info" {
			all = append(all, trusted(cm.Object.Data["kubeconfig"], cm.At.Field("data", "kubeconfig"))...)
		}
	}
	for _, file := range f.FilesAt("/etc/kubernetes/kubelet.conf") {
		all = append(all, trusted(string(file.Object.Data), file.At)...)
	}
	return all
}

// trusted are the authorities of a kubeconfig, as far as it has them in itself.
func trusted(kubeconfig string, at fact.Location) []authority {
	var k struct {
		Clusters []struct {
			Cluster struct {
				CA string `yaml:"certificate-authority-data"`
			} `yaml:"cluster"`
		} `yaml:"clusters"`
	}
	if yaml.Unmarshal([]byte(kubeconfig), &k) != nil {
		return nil
	}
	var all []authority
	for _, c := range k.Clusters {
		rest, err := base64.StdEncoding.DecodeString(c.Cluster.CA)
		for err == nil && len(rest) > 0 {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
				all = append(all, authority{certificate, at})
			}
		}
	}
	return all
}

package certificates

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

var requestsWait = rule.Rule{
	ID: "HF-CERT-009", Group: rule.Certificates, Severity: rule.Error,
	Title: "Kubelets ask for certificates, and nobody gives them any",
	Needs: []fact.Kind{fact.CSRs},
	Why: "A kubelet renews its client certificate by a request that the controller manager approves and signs within seconds; one that waits or " +
		"was denied means that this is broken, and nobody notices before the old one ends and the node turns NotReady. Requests for serving " +
		"certificates (serverTLSBootstrap) are approved by nobody of Kubernetes itself: logs, exec and metrics of the node fail meanwhile.",
	Remedy: "look at why they wait, and approve those that are right",
	Drill:  "site-loss",
	Check:  checkRequests,
}

// patience is what approving takes where a program does it, and a person who watches.
// The signer's own loop takes a second.
const patience = 10 * time.Minute

// askers are the signers that kubelets ask, and what a node cannot do without.
var askers = map[string]string{
	certificatesv1.KubeAPIServerClientKubeletSignerName: "turns NotReady when its present client certificate ends",
	certificatesv1.KubeletServingSignerName:             "serves no logs, exec or metrics that check its certificate",
}

// waiting is what a kubelet asked a signer for and did not get.
type waiting struct {
	at    fact.Location
	nodes []string
	state string
	names []string
}

func checkRequests(f *fact.Facts) ([]rule.Finding, error) {
	bySigner := map[string]*waiting{}
	asked := 0
	for _, r := range newestRequests(f) {
		asked++
		state := stuckRequest(f, r.Object)
		if state == "" {
			continue
		}
		key := r.Object.Spec.SignerName + " " + state
		w := bySigner[key]
		if w == nil {
			w = &waiting{at: r.At, state: state}
			bySigner[key] = w
		}
		w.nodes = append(w.nodes, strings.TrimPrefix(r.Object.Spec.Username, "system:node:"))
		w.names = append(w.names, r.Object.Name)
	}
	if asked == 0 {
		return nil, fact.NotApplicable("no kubelet has asked for a certificate of late")
	}
	var all []rule.Finding
	for _, key := range slices.Sorted(maps.Keys(bySigner)) {
		signer, _, _ := strings.Cut(key, " ")
		w := bySigner[key]
		nodes := few(w.nodes)
		all = append(all, rule.Finding{
			At: w.at, Key: key,
			What:   fmt.Sprintf("the request of %s to %s %s", nodes, signer, w.state),
			Effect: rule.Unending("as it was found", nodes+" "+askers[signer]),
			Remedy: fmt.Sprintf("kubectl describe certificatesigningrequest %s   # is it the node that it says?\nkubectl certificate approve %s\n"+
				"kubectl -n kube-system logs -l component=kube-controller-manager | grep -i csr   # where approved ones are not signed", w.names[0], strings.Join(w.names[:min(len(w.names), 3)], " ")),
		})
	}
	return all, nil
}

// newestRequests are the last request of each kubelet to each signer, in their order:
// one that was denied is over once a later one was granted.
func newestRequests(f *fact.Facts) []fact.Item[certificatesv1.CertificateSigningRequest] {
	newest := map[string]int{}
	for i, r := range f.CSRs.Items {
		if askers[r.Object.Spec.SignerName] == "" {
			continue
		}
		key := r.Object.Spec.SignerName + " " + r.Object.Spec.Username
		if strings.HasPrefix(r.Object.Spec.Username, "system:bootstrap:") {
			key = r.Object.Name // one token is for many nodes
		}
		if j, ok := newest[key]; !ok || f.CSRs.Items[j].Object.CreationTimestamp.Before(&r.Object.CreationTimestamp) {
			newest[key] = i
		}
	}
	var all []fact.Item[certificatesv1.CertificateSigningRequest]
	for _, i := range slices.Sorted(maps.Values(newest)) {
		all = append(all, f.CSRs.Items[i])
	}
	return all
}

// stuckRequest says why a request came to nothing; "" where it did not, or is young.
func stuckRequest(f *fact.Facts, r *certificatesv1.CertificateSigningRequest) string {
	approved := false
	for _, c := range r.Status.Conditions {
		switch {
		case c.Status == corev1.ConditionFalse:
		case c.Type == certificatesv1.CertificateDenied:
			return "was denied"
		case c.Type == certificatesv1.CertificateFailed:
			return "failed with the signer"
		case c.Type == certificatesv1.CertificateApproved:
			approved = true
		}
	}
	young := !f.Collected.IsZero() && f.Collected.Sub(r.CreationTimestamp.Time) < patience
	switch {
	case len(r.Status.Certificate) > 0 || young:
		return ""
	case approved:
		return "was approved and is not signed"
	}
	return "waits for somebody who approves it"
}

// few names up to three, and how many more there are.
func few(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
}

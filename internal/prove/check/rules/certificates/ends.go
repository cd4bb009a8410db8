package certificates

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

const day = 24 * time.Hour

// A week is the last in which a person renews by plan. A month is what `kubeadm
// upgrade`, which renews, can be planned in.
const (
	urgent = 7 * day
	soon   = 30 * day
)

var ended = rule.Rule{
	ID: "HF-CERT-002", Group: rule.Certificates, Severity: rule.Error,
	Title: "An apiserver's certificate has ended, or ends within a week",
	Needs: []fact.Kind{fact.Probes},
	Why: "After its end every client refuses the server, kubelets and controllers too. kubeadm's certificates end a year after the last " +
		"upgrade, on all control-plane nodes on the same day, so that no other server is left.",
	Remedy: "renew the certificates, one control-plane node after the other",
	Drill:  "apiserver-hang",
	Check:  func(f *fact.Facts) ([]rule.Finding, error) { return checkEnds(f, -100*365*day, urgent) },
}

var endsSoon = rule.Rule{
	ID: "HF-CERT-006", Group: rule.Certificates, Severity: rule.Note,
	Title: "An apiserver's certificate ends within a month",
	Needs: []fact.Kind{fact.Probes},
	Why: "kubeadm renews certificates while it upgrades and at no other time. Where the next upgrade is later than the end, all apiservers " +
		"of the cluster are refused on the same day.",
	Remedy: "upgrade before, or renew the certificates, one control-plane node after the other",
	Drill:  "apiserver-hang",
	Check:  func(f *fact.Facts) ([]rule.Finding, error) { return checkEnds(f, urgent, soon) },
}

// checkEnds finds certificates of which more than from and at most to is left.
func checkEnds(f *fact.Facts, from, to time.Duration) ([]rule.Finding, error) {
	if f.Collected.IsZero() {
		return nil, fact.Lacking("nobody knows when the handshakes were recorded")
	}
	var all []rule.Finding
	seen := map[string]bool{} // the address of all shows what one of them has
	for _, p := range f.Probes.Items {
		end := p.Object.NotAfter
		if end.IsZero() {
			continue
		}
		id := end.String() + " " + strings.Join(p.Object.Names, " ") + " " + strings.Join(p.Object.Addresses, " ")
		left := end.Sub(f.Collected)
		if !seen[id] && left > from && left <= to {
			all = append(all, ending(p, left))
		}
		seen[id] = true
	}
	if len(seen) == 0 {
		return nil, fact.Lacking("no address showed a certificate when the handshakes were recorded")
	}
	return all, nil
}

func ending(p fact.Item[fact.Probe], left time.Duration) rule.Finding {
	date := p.Object.NotAfter.UTC().Format("2006-01-02 15:04 MST")
	what := fmt.Sprintf("the certificate of the server at %s ends at %s, in %d days", p.Object.Address, date, left/day)
	if left <= 0 {
		what = fmt.Sprintf("the certificate of the server at %s ended at %s", p.Object.Address, date)
	}
	return rule.Finding{
		At: p.At, Key: p.Object.Address, What: what,
		Effect: rule.Unending("its end", "every client refuses the server at "+p.Object.Address),
		Remedy: "kubeadm certs renew all && kubeadm certs check-expiration   # one control-plane node after the other; then:\n" +
			"for c in kube-apiserver kube-controller-manager kube-scheduler etcd; do crictl pods --name $c -q | xargs -r crictl stopp; done   # and wait for 200 from /readyz",
	}
}

package address

import (
	"fmt"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

var noAnswer = rule.Rule{
	ID: "HF-API-005", Group: rule.APIAddress, Severity: rule.Error,
	Title: "Nothing that is ready answers at the address of the API",
	Needs: []fact.Kind{fact.Probes},
	Why: "The address was asked for /readyz. Silence means that nobody holds it, refusal that the holder has no apiserver or balancer, and " +
		"another code than 200 or 401 that what answers is not ready. A ping that works proves none of them.",
	Remedy: "find out who holds the address, and whether its apiserver is ready",
	Drill:  "vip-apiserver-dead",
	Check:  checkAnswers,
}

// rolesOfAll are those of addresses behind which any apiserver may be.
var rolesOfAll = []string{"address", "vip", "kubeconfig"}

func checkAnswers(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	asked := 0
	for _, p := range f.Probes.Items {
		if !slices.Contains(rolesOfAll, p.Object.Role) {
			continue
		}
		asked++
		if !dead(p.Object) && p.Object.Outcome != fact.ProbeUnready {
			continue
		}
		what := fmt.Sprintf("%s: %s", p.Object.Address, meaning[p.Object.Outcome])
		if p.Object.Error != "" {
			what += ": " + p.Object.Error
		}
		all = append(all, rule.Finding{
			At: p.At, Key: p.Object.Address, What: what,
			Effect: rule.Unending("as it was found", "clients that use "+fact.Host(p.Object.Address)+" have no API"),
			Remedy: fmt.Sprintf("curl -ksS https://%s/readyz?verbose; ip neigh show %s; ssh HOLDER ss -ltnp   # who holds it, and what listens there", p.Object.Address, fact.Host(p.Object.Address)),
		})
	}
	if asked == 0 {
		return nil, fact.Lacking("no address of all apiservers was asked for /readyz")
	}
	return all, nil
}

var meaning = map[string]string{
	fact.ProbeSilent:  "no answer, so that nobody holds the address or the way there is cut",
	fact.ProbeRefused: "the connection was refused, so that nothing listens there",
	fact.ProbeUnready: "what answers is not ready",
	fact.ProbeFailed:  "it could not be asked",
}

// dead says that nothing answered as an apiserver.
func dead(p *fact.Probe) bool {
	return p.Outcome == fact.ProbeSilent || p.Outcome == fact.ProbeRefused || p.Outcome == fact.ProbeFailed
}

var staleEndpoint = rule.Rule{
	ID: "HF-API-006", Group: rule.APIAddress, Severity: rule.Error,
	Title: "The Service kubernetes has an endpoint that is no living apiserver",
	Needs: []fact.Kind{fact.EndpointSlices}, OneOf: []fact.Kind{fact.Probes, fact.Nodes},
	Why: "Pods reach the API by the Service kubernetes, whose endpoints nothing checks: a lease in etcd keeps them, written by each apiserver " +
		"for itself. An address that stayed after its apiserver is gone takes its share of new connections and answers none.",
	Remedy: "remove the endpoint, and let ready apiservers alone publish theirs",
	Drill:  "slices-agent-killed",
	Check:  checkEndpoints,
}

// endpoint is one address of the Service kubernetes that connections are sent to.
type endpoint struct {
	address string
	slice   fact.Item[discoveryv1.EndpointSlice]
	at      fact.Location
}

func checkEndpoints(f *fact.Facts) ([]rule.Finding, error) {
	all := published(f)
	if len(all) == 0 {
		return nil, fact.Lacking("no EndpointSlice of the Service default/kubernetes is known")
	}
	var found []rule.Finding
	for _, e := range all {
		why := stale(f, e.address, all)
		if why == "" {
			continue
		}
		found = append(found, rule.Finding{
			At: e.at, Key: e.address, What: fmt.Sprintf("%s is an endpoint of the Service kubernetes, and %s", e.address, why),
			Effect: rule.Unending("as it was found", fmt.Sprintf("1 of %d new connections from pods to the API fails", len(all))),
			Remedy: fmt.Sprintf("holdfast slices manifest daemonset --node CP1,CP2,CP3 | kubectl apply -f -   # ready apiservers alone are published, docs/guide/slices.md\n"+
				"# a dead server's lease ends within %s; one that stays is a key of etcd: etcdctl del /registry/masterleases/%s", scenario.EndpointLease().Max, e.address),
		})
	}
	return found, nil
}

// published are the endpoints that a datapath uses.
func published(f *fact.Facts) []endpoint {
	var all []endpoint
	for _, s := range f.EndpointSlices.Items {
		if s.Object.Namespace != "default" || s.Object.Labels[discoveryv1.LabelServiceName] != "kubernetes" {
			continue
		}
		for i, e := range s.Object.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			for _, a := range e.Addresses {
				all = append(all, endpoint{a, s, s.At.Field("endpoints", fmt.Sprint(i), "addresses")})
			}
		}
	}
	return all
}

// stale says why an endpoint cannot be a living apiserver; "" where it may be.
func stale(f *fact.Facts, address string, all []endpoint) string {
	answered := false
	for _, p := range f.Probes.Items {
		if fact.Host(p.Object.Address) != address {
			continue
		}
		if dead(p.Object) {
			return "nothing answers there (" + strings.TrimSpace(p.Object.Outcome+" "+p.Object.Error) + ")"
		}
		answered = true
	}
	if answered || f.NodeOf(address) != nil {
		return ""
	}
	// An address of another network of the nodes is no news; one among nodes' is.
	for _, other := range all {
		if f.NodeOf(other.address) != nil {
			return "no Node has that address, as others of its endpoints have"
		}
	}
	return ""
}

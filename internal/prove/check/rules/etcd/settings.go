package etcd

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

var headless = rule.Rule{
	ID: "HF-ETCD-003", Group: rule.Etcd, Severity: rule.Warning,
	Title: "An apiserver finds etcd by a headless Service, and may cling to a cut-off member",
	Needs: []fact.Kind{fact.Services}, OneOf: []fact.Kind{fact.Pods, fact.Files},
	Why: "A headless Service gives the addresses of all members, and the apiserver's client picks one that accepts a connection. A member " +
		"cut off from the leader accepts, and answers nothing; the client may stay with it for the whole split.",
	Remedy: "an ordinary Service with trafficDistribution in front of etcd, or the members by name in --etcd-servers",
	Drill:  "etcd-headless",
	Check:  checkHeadless,
}

func checkHeadless(f *fact.Facts) ([]rule.Finding, error) {
	apiservers := f.Components("kube-apiserver")
	if len(apiservers) == 0 {
		return nil, fact.Lacking("no kube-apiserver among the pods")
	}
	var all []rule.Finding
	for _, c := range apiservers {
		servers, _ := c.Flag("etcd-servers")
		for _, server := range strings.Split(servers, ",") {
			s := serviceOf(f, fact.Host(server), cmp.Or(c.Pod.Namespace, "default"))
			if s == nil || s.Spec.ClusterIP != corev1.ClusterIPNone {
				continue
			}
			all = append(all, rule.Finding{
				At: c.FlagAt("etcd-servers"), Key: c.Node,
				What:   fmt.Sprintf("--etcd-servers=%s is the headless Service %s/%s", servers, s.Namespace, s.Name),
				Effect: rule.Unending("cutting a member off from etcd's leader", "an apiserver that is connected to it answers nothing"),
				Remedy: fmt.Sprintf("kubectl -n %s create service clusterip %s-client --tcp=2379:2379   # with the selector of %s; then --etcd-servers=https://%s-client.%s.svc:2379",
					s.Namespace, s.Name, s.Name, s.Name, s.Namespace),
			})
		}
	}
	return all, nil
}

// serviceOf is the Service that a name of the cluster's DNS leads to.
func serviceOf(f *fact.Facts, host, namespace string) *corev1.Service {
	parts := strings.Split(host, ".")
	if len(parts) > 1 {
		namespace = parts[1]
	}
	if len(parts) > 2 && parts[2] != "svc" {
		return nil
	}
	for _, s := range f.Services.Items {
		if s.Object.Name == parts[0] && s.Object.Namespace == namespace {
			return s.Object
		}
	}
	return nil
}

var differentTimers = rule.Rule{
	ID: "HF-ETCD-007", Group: rule.Etcd, Severity: rule.Warning,
	Title: "etcd's timers differ among its members, or are too short for other zones",
	Needs: []fact.Kind{fact.Nodes}, OneOf: []fact.Kind{fact.Pods, fact.Files},
	Why: "A member with a shorter election timeout campaigns while the others still trust the leader, and a leader with a slower heartbeat " +
		"than the rest expects is doubted. Between zones the round trip comes on top of every heartbeat.",
	Remedy: "the same --heartbeat-interval and --election-timeout on all members: about the largest round trip, and ten times that",
	Drill:  "partial-split",
	Check:  checkTimers,
}

// Defaults of etcd.
const (
	defaultHeartbeat = 100 * time.Millisecond
	defaultElection  = scenario.DefaultElection
)

func checkTimers(f *fact.Facts) ([]rule.Finding, error) {
	members := own(f)
	if len(members) == 0 {
		return nil, errNoEtcd
	}
	zones := map[string]bool{}
	var firstBeat, firstElection time.Duration
	var all []rule.Finding
	for n, m := range members {
		zones[f.Zone(m.Node)] = true
		beat, election := millis(m, "heartbeat-interval", defaultHeartbeat), millis(m, "election-timeout", defaultElection)
		if n == 0 {
			firstBeat, firstElection = beat, election
		}
		what, flag := "", "election-timeout"
		switch {
		case election != firstElection:
			what = fmt.Sprintf("--election-timeout is %s on %s and %s on %s", firstElection, members[0].Node, election, m.Node)
		case beat != firstBeat:
			what, flag = fmt.Sprintf("--heartbeat-interval is %s on %s and %s on %s", firstBeat, members[0].Node, beat, m.Node), "heartbeat-interval"
		default:
			continue
		}
		all = append(all, finding(m, flag, what, min(election, firstElection)))
	}
	if len(all) == 0 && len(zones) > 1 && firstElection < defaultElection {
		m := members[0]
		what := fmt.Sprintf("the members are in %d zones, and --election-timeout is %s, less than its default", len(zones), firstElection)
		all = append(all, finding(m, "election-timeout", what, firstElection))
	}
	return all, nil
}

func finding(m fact.Component, flag, what string, election time.Duration) rule.Finding {
	return rule.Finding{
		At: m.FlagAt(flag), Key: m.Node, What: what,
		Effect: rule.Lasts("a link that is slow for "+election.String(), "etcd has no leader, and takes no writes,", scenario.Leaderless(election, 0)),
		Remedy: "# /etc/kubernetes/manifests/etcd.yaml, on every member, one after the other:\n- --heartbeat-interval=100\n- --election-timeout=1000",
	}
}

func millis(m fact.Component, flag string, or time.Duration) time.Duration {
	text, _ := m.Flag(flag)
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return time.Duration(n) * time.Millisecond
	}
	return or
}

var preVoteOff = rule.Rule{
	ID: "HF-ETCD-011", Group: rule.Etcd, Severity: rule.Warning,
	Title: "PreVote is off: a member that comes back unseats the leader",
	OneOf: []fact.Kind{fact.Pods, fact.Files},
	Why: "Without PreVote a member that is cut off raises its term with every election it holds alone. When the link heals the leader sees " +
		"the higher term and steps down, and a flapping link does it again and again.",
	Remedy: "leave --pre-vote at its default, true",
	Drill:  "flap",
	Check:  checkPreVote,
}

func checkPreVote(f *fact.Facts) ([]rule.Finding, error) {
	members := own(f)
	if len(members) == 0 {
		return nil, errNoEtcd
	}
	var all []rule.Finding
	for _, m := range members {
		if v, ok := m.Flag("pre-vote"); !ok || v != "false" {
			continue
		}
		all = append(all, rule.Finding{
			At: m.FlagAt("pre-vote"), Key: m.Node, What: strings.TrimSpace("etcd " + m.Node + " has --pre-vote=false"),
			Effect: rule.Lasts("a link that heals", "etcd has no leader, and takes no writes,", scenario.Leaderless(millis(m, "election-timeout", defaultElection), 0)),
			Remedy: "# /etc/kubernetes/manifests/etcd.yaml, on every member, one after the other: take out\n- --pre-vote=false",
		})
	}
	return all, nil
}

var deadStaysActive = rule.Rule{
	ID: "HF-ETCD-009", Group: rule.Etcd, Severity: rule.Warning,
	Title: "An alert rests on etcd_network_active_peers, which takes the dead for active",
	Needs: []fact.Kind{fact.Custom},
	Why: "The metric keeps a peer for active long after the link was cut, and says 0 of one that works where only one side may open " +
		"connections (etcd#22639). An alert on it comes late or lies.",
	Remedy: "alert on etcd_server_has_leader of each member, and on holdfast leader's own view of the links",
	Drill:  "one-way",
	Check:  checkAlerts,
}

func checkAlerts(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	alerts := f.CustomOf("monitoring.coreos.com", "PrometheusRule")
	for _, p := range alerts {
		groups, _ := p.Object.Get("spec", "groups").([]any)
		for i, g := range groups {
			group, _ := g.(map[string]any)
			rules, _ := group["rules"].([]any)
			for j, r := range rules {
				alert, _ := r.(map[string]any)
				expr, _ := alert["expr"].(string)
				name, _ := alert["alert"].(string)
				if name == "" || !strings.Contains(expr, "etcd_network_active_peers") {
					continue
				}
				all = append(all, rule.Finding{
					At: p.At.Field("spec", "groups", strconv.Itoa(i), "rules", strconv.Itoa(j), "expr"), Key: name,
					What:   fmt.Sprintf("the alert %s asks for etcd_network_active_peers", name),
					Effect: rule.Unending("cutting a member off", "the alert may stay silent"),
					Remedy: "expr: etcd_server_has_leader == 0",
				})
			}
		}
	}
	if len(alerts) == 0 {
		return nil, fact.NotApplicable("no PrometheusRule")
	}
	return all, nil
}

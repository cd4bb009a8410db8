package address

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

var restarted = rule.Rule{
	ID: "HF-API-008", Group: rule.APIAddress, Severity: rule.Warning,
	Title: "A part of the control plane is restarted week after week",
	Needs: []fact.Kind{fact.Pods},
	Why: "A restart counter that grows is the commonest sign of an etcd that is slow now and then: controllers lose their lease and end, an " +
		"apiserver fails its liveness probe. Each time its clients look for another one, and the next hiccup may hit all of them at once.",
	Remedy: "read why it ended, and measure etcd's disk and round trips",
	Drill:  "vip-etcd-stalls",
	Check:  checkRestarts,
}

// A restart a week is more than nodes are rebooted by plan; five of them are no
// accident.
const (
	week        = 7 * 24 * time.Hour
	fewRestarts = 5
)

// controlPlane are its programs, and whether they hold a lease to act.
var controlPlane = map[string]bool{"kube-apiserver": false, "kube-controller-manager": true, "kube-scheduler": true, "cloud-controller-manager": true, "etcd": false}

func checkRestarts(f *fact.Facts) ([]rule.Finding, error) {
	if f.Collected.IsZero() {
		return nil, fact.Lacking("nobody knows when the pods were read, so that a restart may be long ago")
	}
	var all []rule.Finding
	seen := 0
	for _, p := range f.Pods.Items {
		for _, status := range p.Object.Status.ContainerStatuses {
			if _, ok := controlPlane[status.Name]; !ok {
				continue
			}
			seen++
			if goesOn(p.Object, status, f.Collected) {
				all = append(all, restarting(p, status))
			}
		}
	}
	if seen == 0 {
		return nil, fact.NotApplicable("no pod of the control plane has a status")
	}
	return all, nil
}

// goesOn says that a container was restarted at least once a week on average, and
// in the last week.
func goesOn(p *corev1.Pod, status corev1.ContainerStatus, now time.Time) bool {
	last := status.LastTerminationState.Terminated
	if status.RestartCount < fewRestarts || last == nil || now.Sub(last.FinishedAt.Time) > week {
		return false
	}
	begun := p.Status.StartTime
	return begun == nil || now.Sub(begun.Time) < time.Duration(status.RestartCount)*week
}

func restarting(p fact.Item[corev1.Pod], status corev1.ContainerStatus) rule.Finding {
	last := status.LastTerminationState.Terminated
	effect := rule.Lasts("each restart", "its share of new connections from pods to the API fails", scenario.EndpointLease())
	if controlPlane[status.Name] {
		effect = rule.Lasts("each restart", "nobody does its work",
			scenario.Elected(15*time.Second, 2*time.Second)) // the defaults of --leader-elect-lease-duration and -retry-period
	}
	if status.Name == "etcd" {
		effect = rule.Lasts("each restart of the leader", "nothing is written", scenario.Leaderless(scenario.DefaultElection, 0))
	}
	return rule.Finding{
		At: p.At.Field("status", "containerStatuses"), Key: status.Name,
		What: fmt.Sprintf("%s was restarted %d times, the last time at %s with exit code %d (%s)", p.Object.Name, status.RestartCount,
			last.FinishedAt.UTC().Format(time.RFC3339), last.ExitCode, last.Reason),
		Effect: effect,
		Remedy: fmt.Sprintf("kubectl -n %s logs %s -c %s --previous | tail -n 30\ncurl -s http://127.0.0.1:2381/metrics | grep -E 'wal_fsync_duration|leader_changes'   # on %s",
			p.Object.Namespace, p.Object.Name, status.Name, p.Object.Spec.NodeName),
	}
}

package timers

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// elected are the programs of the control plane of which one instance acts.
var elected = []string{"kube-controller-manager", "kube-scheduler", "cloud-controller-manager"}

// electedOf lists all instances of them.
func electedOf(f *fact.Facts) []fact.Component {
	var all []fact.Component
	for _, name := range elected {
		all = append(all, f.Components(name)...)
	}
	return all
}

var errNoneElected = fact.Lacking("neither kube-controller-manager nor kube-scheduler among the pods")

var leaseUnderHiccup = rule.Rule{
	ID: "HF-TIME-002", Group: rule.Timers, Severity: rule.Warning,
	Title: "A controller gives its role up before etcd has elected a leader",
	OneOf: []fact.Kind{fact.Pods, fact.Files},
	Why: "A controller that cannot renew its lease within the deadline ends and is started again, with empty caches. Where the deadline is " +
		"shorter than an election of etcd that takes a second vote, every hiccup of etcd restarts the controllers too.",
	Remedy: "leave --leader-elect-lease-duration, -renew-deadline and -retry-period at 15s, 10s and 2s",
	Drill:  "vip-etcd-stalls",
	Check:  checkLeaseUnderHiccup,
}

func checkLeaseUnderHiccup(f *fact.Facts) ([]rule.Finding, error) {
	controllers := electedOf(f)
	if len(controllers) == 0 {
		return nil, errNoneElected
	}
	hiccup := scenario.Leaderless(scenario.DefaultElection, 0).Then(scenario.Leaderless(scenario.DefaultElection, 0))
	var all []rule.Finding
	for _, c := range controllers {
		deadline := flagged(c, "leader-elect-renew-deadline", 10*time.Second)
		if deadline > hiccup.Max {
			continue
		}
		lease, retry := flagged(c, "leader-elect-lease-duration", 15*time.Second), flagged(c, "leader-elect-retry-period", 2*time.Second)
		all = append(all, rule.Finding{
			At: c.FlagAt("leader-elect-renew-deadline"), Key: c.Name + "/" + c.Node,
			What:   fmt.Sprintf("%s of %s gives up after %s, and etcd may be without a leader for %s", c.Name, c.Node, deadline, hiccup.Max),
			Effect: rule.Lasts(fmt.Sprintf("etcd not answering for %s", deadline), "no "+c.Name+" acts", scenario.Elected(lease, retry)),
			Remedy: "# /etc/kubernetes/manifests/" + c.Name + ".yaml, on every control-plane node:\n- --leader-elect-lease-duration=15s\n- --leader-elect-renew-deadline=10s\n- --leader-elect-retry-period=2s",
		})
	}
	return all, nil
}

func flagged(c fact.Component, name string, or time.Duration) time.Duration {
	text, _ := c.Flag(name)
	if d, err := time.ParseDuration(text); err == nil {
		return d
	}
	return or
}

var allAct = rule.Rule{
	ID: "HF-TIME-003", Group: rule.Timers, Severity: rule.Error,
	Title: "Several instances of a controller act at once: no leader election",
	OneOf: []fact.Kind{fact.Pods, fact.Files},
	Why: "With --leader-elect=false every instance takes itself for the only one. Two controller-managers make pods twice and give them up " +
		"in turn; two schedulers bind by different views.",
	Remedy: "set --leader-elect=true on all instances",
	Drill:  "site-loss",
	Check:  checkAllAct,
}

func checkAllAct(f *fact.Facts) ([]rule.Finding, error) {
	controllers := electedOf(f)
	if len(controllers) == 0 {
		return nil, errNoneElected
	}
	count := map[string]int{}
	for _, c := range controllers {
		count[c.Name]++
	}
	var all []rule.Finding
	for _, c := range controllers {
		if v, ok := c.Flag("leader-elect"); !ok || v != "false" || count[c.Name] < 2 {
			continue
		}
		all = append(all, rule.Finding{
			At: c.FlagAt("leader-elect"), Key: c.Name + "/" + c.Node,
			What:   fmt.Sprintf("%s of %s has --leader-elect=false and is one of %d", c.Name, c.Node, count[c.Name]),
			Effect: rule.Unending("as it is set up", "several "+c.Name+" act at once"),
			Remedy: "# /etc/kubernetes/manifests/" + c.Name + ".yaml, on every control-plane node:\n- --leader-elect=true",
		})
	}
	return all, nil
}

var alone = rule.Rule{
	ID: "HF-TIME-005", Group: rule.Timers, Severity: rule.Warning,
	Title: "What everybody needs has one pod, which stays five minutes on a dead node",
	Needs: []fact.Kind{fact.Deployments, fact.Services},
	Why: "A pod of a node that died is replaced when the node is NotReady and the pod's toleration of that has passed: 300 s by default. " +
		"With a second replica nobody notices; with one there is no DNS or no entry for all that time.",
	Remedy: "run two replicas on different nodes, or lower the toleration",
	Drill:  "site-loss",
	Check:  checkAlone,
}

func checkAlone(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	needed := 0
	for _, d := range f.Deployments.Items {
		role := roleOf(f, d.Object)
		if role == "" {
			continue
		}
		needed++
		if r := d.Object.Spec.Replicas; r != nil && *r != 1 {
			continue
		}
		stays := tolerated(d.Object.Spec.Template.Spec.Tolerations)
		all = append(all, rule.Finding{
			At:   d.At.Field("spec", "replicas"),
			What: fmt.Sprintf("%s/%s, %s, has one replica", d.Object.Namespace, d.Object.Name, role),
			Effect: rule.Lasts("losing its node", "nobody answers for it",
				scenario.Evicted(scenario.NotReady(scenario.DefaultNodeGrace, scenario.NodeHeartbeat, scenario.NodeMonitor), stays)),
			Remedy: fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=2   # with a topologySpreadConstraint over kubernetes.io/hostname", d.Object.Namespace, d.Object.Name),
		})
	}
	if needed == 0 {
		return nil, fact.NotApplicable("no Deployment is the cluster's DNS or behind an outside address")
	}
	return all, nil
}

// roleOf says what everybody needs a Deployment for; "" for any other.
func roleOf(f *fact.Facts, d *appsv1.Deployment) string {
	template := d.Spec.Template.Labels
	if template["k8s-app"] == "kube-dns" {
		return "the cluster's DNS"
	}
	for _, s := range f.Services.Items {
		spec := s.Object.Spec
		if spec.Type == corev1.ServiceTypeLoadBalancer && s.Object.Namespace == d.Namespace && len(spec.Selector) > 0 &&
			labels.SelectorFromSet(spec.Selector).Matches(labels.Set(template)) {
			return "behind the address of Service " + s.Object.Name
		}
	}
	return ""
}

// tolerated is how long pods stay on a node that does not answer.
func tolerated(all []corev1.Toleration) time.Duration {
	for _, t := range all {
		if t.Key == corev1.TaintNodeUnreachable && t.TolerationSeconds != nil {
			return time.Duration(*t.TolerationSeconds) * time.Second
		}
	}
	return scenario.DefaultEviction
}

var rareHeartbeats = rule.Rule{
	ID: "HF-TIME-006", Group: rule.Timers, Severity: rule.Warning,
	Title: "A kubelet's heartbeats are so rare that a lost one makes its node NotReady",
	Needs: []fact.Kind{fact.Files},
	Why: "A kubelet renews its Lease four times in nodeLeaseDurationSeconds. The grace period of nodes should hold three renewals; with " +
		"fewer, one request that is slow or lost takes the pods of a healthy node out of all endpoints.",
	Remedy: "leave nodeLeaseDurationSeconds at 40, or raise --node-monitor-grace-period with it",
	Drill:  "apiserver-hang",
	Check:  checkHeartbeats,
}

const kubeletConfig = "/var/lib/kubelet/config.yaml"

func checkHeartbeats(f *fact.Facts) ([]rule.Finding, error) {
	kubelets := f.FilesAt(kubeletConfig)
	managers := f.Components("kube-controller-manager")
	switch {
	case len(kubelets) == 0:
		return nil, fact.Lacking("no %s was read", kubeletConfig)
	case len(managers) == 0:
		return nil, fact.Lacking("no kube-controller-manager among the pods")
	}
	grace, how, err := graceOf(f, managers[0])
	if err != nil {
		return nil, err
	}
	var all []rule.Finding
	for _, k := range kubelets {
		var v struct {
			Seconds int `yaml:"nodeLeaseDurationSeconds"`
		}
		if err := yaml.Unmarshal(k.Object.Data, &v); err != nil || v.Seconds == 0 {
			continue // its default, which fits
		}
		heartbeat := time.Duration(v.Seconds) * time.Second / 4
		if grace >= 3*heartbeat {
			continue
		}
		all = append(all, rule.Finding{
			At: k.At.LineIn(lineWith(k.Object.Data, "nodeLeaseDurationSeconds:")), Key: k.Object.Node,
			What: fmt.Sprintf("the kubelet of %s renews its Lease every %s, and the grace period is %s (%s)", k.Object.Node, heartbeat, grace, how),
			Effect: rule.Lasts("a lost heartbeat", "node "+k.Object.Node+", which is well, turns NotReady after silence",
				scenario.NotReady(grace, heartbeat, scenario.NodeMonitor)),
			Remedy: "# " + kubeletConfig + " of " + k.Object.Node + ", then: systemctl restart kubelet\nnodeLeaseDurationSeconds: 40",
		})
	}
	return all, nil
}

package maintenance

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

var rebootTogether = rule.Rule{
	ID: "HF-MAINT-002", Group: rule.Maintenance, Severity: rule.Error,
	Title: "Several nodes reboot by themselves at the same minute",
	Needs: []fact.Kind{fact.Files},
	Why: "Unattended upgrades reboot a node where an update wants it. Nodes that were set up alike have the same time, so that one kernel " +
		"update takes down as many of them as it was installed on, and with two of three control-plane nodes the quorum.",
	Remedy: "turn Automatic-Reboot off and reboot by hand, one at a time; or give each node an hour of its own",
	Drill:  "site-loss",
	Check:  checkReboots,
}

var (
	rebootOn   = regexp.MustCompile(`^\s*Unattended-Upgrade::Automatic-Reboot\s+"(?:true|1|yes)"`)
	rebootTime = regexp.MustCompile(`^\s*Unattended-Upgrade::Automatic-Reboot-Time\s+"([0-9:]+)"`)
)

// reboot is a node that reboots by itself, and when.
type reboot struct {
	on   bool
	time string
	at   fact.Location
}

func checkReboots(f *fact.Facts) ([]rule.Finding, error) {
	byNode := map[string]reboot{}
	for _, file := range f.Files.Items {
		r := byNode[file.Object.Node]
		if path.Dir(file.Object.Path) == "/etc/apt/apt.conf.d" {
			for i, line := range strings.Split(string(file.Object.Data), "\n") {
				if rebootOn.MatchString(line) {
					r.on = true
				}
				if m := rebootTime.FindStringSubmatch(line); m != nil {
					r.time, r.at = m[1], file.At.LineIn(i+1)
				}
			}
		}
		byNode[file.Object.Node] = r
	}
	if len(byNode) < 2 {
		return nil, fact.Lacking("files of one node only; the others' say whether they reboot at the same time")
	}
	together := map[string][]string{}
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		if r := byNode[node]; r.on && r.time != "" {
			together[r.time] = append(together[r.time], node)
		}
	}
	var all []rule.Finding
	for _, when := range slices.Sorted(maps.Keys(together)) {
		nodes := together[when]
		if len(nodes) < 2 {
			continue
		}
		all = append(all, rule.Finding{
			At: byNode[nodes[1]].at, Key: when,
			What:   fmt.Sprintf("%s reboot at %s by themselves", strings.Join(nodes, ", "), when),
			Effect: rule.Unending("an update that wants a reboot", fmt.Sprintf("%d nodes are away at once", len(nodes))),
			Remedy: "echo 'Unattended-Upgrade::Automatic-Reboot \"false\";' > /etc/apt/apt.conf.d/99-no-reboot   # on each",
		})
	}
	return all, nil
}

var drainStuck = rule.Rule{
	ID: "HF-MAINT-003", Group: rule.Maintenance, Severity: rule.Warning,
	Title: "A PodDisruptionBudget allows no disruption at all: a drain waits for ever",
	Needs: []fact.Kind{fact.PDBs},
	Why: "A budget that wants all of its pods refuses each eviction, though all are well. The drain of their node does not end, and a person " +
		"in a hurry forces it, or reboots without one.",
	Remedy: "allow one: maxUnavailable: 1, with two replicas or more",
	Drill:  "bgp-drain",
	Check:  checkDrain,
}

func checkDrain(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	for _, p := range f.PDBs.Items {
		why := stuck(p.Object)
		if why == "" {
			continue
		}
		all = append(all, rule.Finding{
			At:     p.At.Field("spec"),
			What:   fmt.Sprintf("%s/%s %s", p.Object.Namespace, p.Object.Name, why),
			Effect: rule.Unending("draining a node with a pod of it", "the drain does not end"),
			Remedy: fmt.Sprintf("kubectl -n %s patch poddisruptionbudget %s --type merge -p '{\"spec\":{\"minAvailable\":null,\"maxUnavailable\":1}}'", p.Object.Namespace, p.Object.Name),
		})
	}
	if len(f.PDBs.Items) == 0 {
		return nil, fact.NotApplicable("no PodDisruptionBudget")
	}
	return all, nil
}

// stuck says why a budget refuses evictions though its pods are well.
func stuck(p *policyv1.PodDisruptionBudget) string {
	zero := func(v *intstr.IntOrString) bool { return v != nil && (v.String() == "0" || v.String() == "0%") }
	switch s := p.Status; {
	case zero(p.Spec.MaxUnavailable):
		return "has maxUnavailable " + p.Spec.MaxUnavailable.String()
	case p.Spec.MinAvailable != nil && p.Spec.MinAvailable.String() == "100%":
		return "has minAvailable 100%"
	case s.ExpectedPods > 0 && s.CurrentHealthy >= s.ExpectedPods && s.DisruptionsAllowed == 0:
		return fmt.Sprintf("wants %d of its %d pods, which are all well, and allows no eviction", s.DesiredHealthy, s.ExpectedPods)
	}
	return ""
}

var mustWait = rule.Rule{
	ID: "HF-MAINT-005", Group: rule.Maintenance, Severity: rule.Error,
	Title: "A control-plane node is away or cordoned: the next one must wait",
	Needs: []fact.Kind{fact.Nodes},
	Why: "Nodes go down strictly one at a time: drain, reboot, Ready, uncordon, and etcd whole again before the next. A node that was left " +
		"behind makes the next reboot the second fault.",
	Remedy: "bring it back first: kubectl get nodes; etcdctl endpoint health --cluster; kubectl uncordon",
	Drill:  "site-loss",
	Check:  checkWait,
}

func checkWait(f *fact.Facts) ([]rule.Finding, error) {
	control := f.ControlPlane()
	if len(control) < 2 {
		return nil, fact.NotApplicable("fewer than two control-plane nodes")
	}
	var all []rule.Finding
	told := 0
	for _, n := range control {
		i := slices.IndexFunc(n.Object.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
		if i < 0 && !n.Object.Spec.Unschedulable {
			continue
		}
		told++
		at, state := n.At.Field("spec", "unschedulable"), "cordoned"
		if i >= 0 && n.Object.Status.Conditions[i].Status != corev1.ConditionTrue {
			at, state = n.At.Field("status", "conditions", strconv.Itoa(i)), "not Ready"
		} else if !n.Object.Spec.Unschedulable {
			continue
		}
		all = append(all, rule.Finding{
			At: at, What: fmt.Sprintf("%s is %s, one of %d control-plane nodes", n.Object.Name, state, len(control)),
			Effect: rule.Unending("taking the next control-plane node down", fmt.Sprintf("%d of %d are left, and etcd may take no writes", len(control)-2, len(control))),
			Remedy: "kubectl describe node " + n.Object.Name + "; then, when it is Ready: kubectl uncordon " + n.Object.Name,
		})
	}
	if told == 0 {
		return nil, fact.Lacking("no control-plane node says whether it is Ready")
	}
	return all, nil
}

var possibleCPUs = rule.Rule{
	ID: "HF-MAINT-006", Group: rule.Maintenance, Severity: rule.Warning,
	Title: "The kernel reckons with many times the CPUs that the node has",
	Needs: []fact.Kind{fact.Files, fact.Nodes},
	Why: "Per-CPU maps of eBPF datapaths have room for every CPU that could be plugged in. Hyper-V says 240 of a guest with few: that took " +
		"1.3 to 1.5 GB of each node, until the memory was missing elsewhere.",
	Remedy: "boot with nr_cpus set to what the machine has",
	Drill:  "bgp-agent-restarted",
	Check:  checkCPUs,
}

// Many CPUs are more than four times those there are, and not a handful.
const (
	manyTimes = 4
	handful   = 64
)

func checkCPUs(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	judged := 0
	for _, file := range f.FilesAt("/sys/devices/system/cpu/possible") {
		_, last, _ := strings.Cut(strings.TrimSpace(string(file.Object.Data)), "-")
		highest, err := strconv.Atoi(last)
		n := f.NodeOf(file.Object.Node)
		if n == nil || n.Status.Capacity.Cpu().IsZero() {
			continue
		}
		judged++
		possible, have := highest+1, n.Status.Capacity.Cpu().Value()
		if err != nil || possible <= handful || int64(possible) <= manyTimes*have {
			continue
		}
		all = append(all, rule.Finding{
			At: file.At, Key: file.Object.Node,
			What:   fmt.Sprintf("%s has %d CPUs and reckons with %d", file.Object.Node, have, possible),
			Effect: rule.Unending("as it is set up", "per-CPU maps take the memory that pods and etcd need"),
			Remedy: fmt.Sprintf("# /etc/default/grub on %s, then update-grub and a reboot, one node at a time:\nGRUB_CMDLINE_LINUX=\"nr_cpus=%d\"", file.Object.Node, have),
		})
	}
	if judged == 0 {
		return nil, fact.Lacking("no node's possible CPUs and capacity are both known")
	}
	return all, nil
}

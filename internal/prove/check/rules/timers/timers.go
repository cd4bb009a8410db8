package timers

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Rules lists the rules of the group.
func Rules() []rule.Rule {
	return []rule.Rule{graceInverted, leaseUnderHiccup, allAct, alone, rareHeartbeats}
}

var graceInverted = rule.Rule{
	ID: "HF-TIME-001", Group: rule.Timers, Severity: rule.Warning,
	Title: "Nodes are NotReady before their kubelets have left a dead apiserver",
	OneOf: []fact.Kind{fact.Pods, fact.Files},
	Why: "A kubelet keeps one HTTP/2 connection. When the other end falls silent it takes 45 s until it is given up; a grace period that is " +
		"no longer makes healthy nodes NotReady, and takes their pods out of all endpoints, for the death of one apiserver.",
	Remedy: "set --node-monitor-grace-period of kube-controller-manager to 50s or more",
	Drill:  "apiserver-hang",
	Check:  checkGrace,
}

const graceFlag = "node-monitor-grace-period"

func checkGrace(f *fact.Facts) ([]rule.Finding, error) {
	managers := f.Components("kube-controller-manager")
	if len(managers) == 0 {
		return nil, fact.Lacking("no kube-controller-manager among the pods")
	}
	kept := scenario.Pinged(scenario.HTTP2Idle, scenario.HTTP2Ping)
	var all []rule.Finding
	for _, m := range managers {
		grace, how, err := graceOf(f, m)
		if err != nil {
			return all, err
		}
		if grace > kept.Max {
			continue
		}
		all = append(all, rule.Finding{
			At: m.FlagAt(graceFlag), Key: m.Node,
			What: fmt.Sprintf("the grace period of nodes is %s (%s), and a kubelet leaves a silent apiserver after %s", grace, how, kept.Max),
			Effect: rule.Lasts("an apiserver falls silent", "the nodes whose kubelets were connected to it turn NotReady, after they were well",
				scenario.NotReady(grace, scenario.NodeHeartbeat, scenario.NodeMonitor)),
			Remedy: "# /etc/kubernetes/manifests/kube-controller-manager.yaml, on every control-plane node:\n- --" + graceFlag + "=50s",
		})
	}
	return all, nil
}

// oldGrace was the default before Kubernetes 1.32.
const oldGrace = 40 * time.Second

func graceOf(f *fact.Facts, m fact.Component) (grace time.Duration, how string, err error) {
	if text, ok := m.Flag(graceFlag); ok {
		if grace, err = time.ParseDuration(text); err != nil {
			return 0, "", fact.Lacking("--%s=%s is no duration", graceFlag, text)
		}
		return grace, "--" + graceFlag, nil
	}
	_, tag := fact.SplitImage(m.Container.Image)
	minor, ok := minorOf(tag)
	if !ok {
		if minor, ok = minorOf(f.Server); !ok {
			return 0, "", fact.Lacking("neither image %s nor the server tells the version whose default holds", m.Container.Image)
		}
	}
	if minor < 32 {
		return oldGrace, fmt.Sprintf("default of 1.%d", minor), nil
	}
	return scenario.DefaultNodeGrace, fmt.Sprintf("default of 1.%d", minor), nil
}

func minorOf(version string) (minor int, ok bool) {
	n, _ := fmt.Sscanf(version, "v1.%d", &minor)
	return minor, n == 1
}

// lineWith is the first line that has a text; 1 where none has.
func lineWith(data []byte, text string) int {
	for i, line := range strings.Split(string(data), "\n") {
		if strings.Contains(line, text) {
			return i + 1
		}
	}
	return 1
}

package vip

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// on says whether a switch of kube-vip is on.
func on(c fact.Component, name string) bool {
	v, _ := c.Env(name)
	return v == "true"
}

var errNoKubeVIP = fact.NotApplicable("no kube-vip runs here")

var leaks = rule.Rule{
	ID: "HF-VIP-002", Group: rule.VIP, Severity: rule.Warning,
	Title: "This kube-vip loses 18 MB an hour to its own health check",
	OneOf: []fact.Kind{fact.Pods, fact.DaemonSets, fact.Files},
	Why: "kube-vip 1.2.1 to 1.2.3 closes the answers of its health check only when the check ends, which it never does (kube-vip#1778). " +
		"On a control-plane node that takes the memory of etcd and the apiserver.",
	Remedy: "upgrade kube-vip to 1.2.4 or later, one node at a time",
	Drill:  "bgp-agent-restarted",
	Check:  checkLeak,
}

func checkLeak(f *fact.Facts) ([]rule.Finding, error) {
	agents := f.Components("kube-vip")
	if len(agents) == 0 {
		return nil, errNoKubeVIP
	}
	var all []rule.Finding
	var lacking error
	for _, c := range agents {
		if address, _ := c.Env("control_plane_health_check_address"); address == "" || !on(c, "bgp_enable") {
			continue
		}
		_, tag := fact.SplitImage(c.Container.Image)
		var minor, patch int
		if n, _ := fmt.Sscanf(strings.TrimPrefix(tag, "v"), "1.%d.%d", &minor, &patch); n < 2 {
			if !strings.HasPrefix(strings.TrimPrefix(tag, "v"), "0.") {
				lacking = fact.Lacking("the image %s does not tell kube-vip's version", c.Container.Image)
			}
			continue
		}
		if minor != 2 || patch < 1 || patch > 3 {
			continue
		}
		all = append(all, rule.Finding{
			At: c.At.Field("spec", "containers", fmt.Sprint(c.Index), "image"), Key: c.Node,
			What:   fmt.Sprintf("kube-vip %s announces by BGP with a health check", tag),
			Effect: rule.Unending("weeks of running", "the node runs out of memory, and its apiserver and etcd with it"),
			Remedy: "# in kube-vip's manifest; on one node, wait for \"announcing route\" and 200 from /readyz, then the next:\nimage: kube-vip/kube-vip:v1.2.4",
		})
	}
	return all, lacking
}

// often and lately bound what is called growing: three restarts, one of them in
// the last week.
const (
	often  = 3
	lately = 7 * 24 * time.Hour
)

var restarts = rule.Rule{
	ID: "HF-VIP-003", Group: rule.VIP, Severity: rule.Warning,
	Title: "The restarts of the agent that holds the address go on",
	Needs: []fact.Kind{fact.Pods},
	Why: "A restart counter that grows from week to week is the commonest sign of an address held by a lease that is not renewed in time: " +
		"etcd is slow, the agent gives up, the address jumps, all clients reconnect, and that loads etcd further.",
	Remedy: "read the log of the last run: kubectl logs --previous; then see HF-VIP-001 and the disk of etcd",
	Drill:  "vip-etcd-stalls",
	Check:  checkRestarts,
}

var holders = map[string]bool{"kube-vip": true, "keepalived": true, "holdfast-vip": true}

func checkRestarts(f *fact.Facts) ([]rule.Finding, error) {
	if f.Collected.IsZero() {
		return nil, fact.Lacking("nobody knows when this was read from the cluster")
	}
	var all []rule.Finding
	agents := 0
	for _, p := range f.Pods.Items {
		for i, s := range p.Object.Status.ContainerStatuses {
			if !holders[s.Name] {
				continue
			}
			agents++
			last := s.LastTerminationState.Terminated
			if s.RestartCount < often || last == nil || f.Collected.Sub(last.FinishedAt.Time) > lately {
				continue
			}
			all = append(all, rule.Finding{
				At: p.At.Field("status", "containerStatuses", fmt.Sprint(i), "restartCount"), Key: s.Name,
				What:   fmt.Sprintf("%s on %s has been started again %d times, last at %s", s.Name, p.Object.Spec.NodeName, s.RestartCount, last.FinishedAt.UTC().Format("2006-01-02 15:04")),
				Effect: rule.Lasts("each restart of the holder", "the address is away", away(p.Object, s.Name)),
				Remedy: fmt.Sprintf("kubectl -n %s logs %s -c %s --previous | tail -n 50", p.Object.Namespace, p.Object.Name, s.Name),
			})
		}
	}
	if agents == 0 {
		return nil, fact.NotApplicable("no agent of an address among the pods")
	}
	return all, nil
}

// away is how long nobody holds the address after its holder was restarted.
func away(p *corev1.Pod, container string) scenario.Window {
	for i := range p.Spec.Containers {
		c := fact.Component{Container: &p.Spec.Containers[i]}
		if l, err := leaseOf(c); p.Spec.Containers[i].Name == container && err == nil && on(c, "vip_leaderelection") {
			return scenario.Elected(l.lease, l.retry)
		}
	}
	return scenario.Adverts(keepalivedInterval, keepalivedPriority)
}

var announcesDead = rule.Rule{
	ID: "HF-VIP-010", Group: rule.VIP, Severity: rule.Error,
	Title: "kube-vip announces its node whether or not the apiserver answers",
	OneOf: []fact.Kind{fact.Pods, fact.DaemonSets, fact.Files},
	Why: "By BGP or a routing table every node announces the address, and withdraws it only where a health check is set " +
		"(kube-vip#1145). Without one the routers go on sending a share of all connections to an apiserver that is gone or hangs.",
	Remedy: "set control_plane_health_check_address",
	Drill:  "bgp-apiserver-killed",
	Check:  checkAnnounced,
}

func checkAnnounced(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	announcers := 0
	for _, c := range f.Components("kube-vip") {
		if !on(c, "cp_enable") || on(c, "vip_leaderelection") || !on(c, "bgp_enable") && !on(c, "vip_routingtable") {
			continue
		}
		announcers++
		if address, _ := c.Env("control_plane_health_check_address"); address != "" {
			continue
		}
		all = append(all, rule.Finding{
			At: c.EnvAt("cp_enable"), Key: c.Node,
			What:   strings.TrimSpace("kube-vip " + c.Node + " announces the API without control_plane_health_check_address"),
			Effect: rule.Unending("an apiserver that dies or hangs while its machine lives", "its share of new connections fails"),
			Remedy: "# in kube-vip's manifest, on every control-plane node, one after the other:\n" +
				"- {name: control_plane_health_check_address, value: \"https://localhost:6443/readyz\"}\n" +
				"- {name: control_plane_health_check_ca_path, value: /etc/kubernetes/pki/ca.crt}",
		})
	}
	if announcers == 0 {
		return nil, fact.NotApplicable("no kube-vip that every node announces an address by")
	}
	return all, nil
}

var oneHolder = rule.Rule{
	ID: "HF-VIP-011", Group: rule.VIP, Severity: rule.Error,
	Title: "Only one of the control-plane nodes can hold the address",
	Needs: []fact.Kind{fact.Nodes, fact.Pods},
	Why: "The address outlives its machine only where another one runs the agent too. Nodes that joined later are often left without: " +
		"the manifest of a static pod is copied by hand.",
	Remedy: "run the agent on every control-plane node",
	Drill:  "vip-node-silent",
	Check:  checkOneHolder,
}

func checkOneHolder(f *fact.Facts) ([]rule.Finding, error) {
	control := f.ControlPlane()
	if len(control) < 2 {
		return nil, fact.NotApplicable("fewer than two control-plane nodes")
	}
	byNode := map[string]fact.Item[corev1.Pod]{}
	for _, p := range f.Pods.Items {
		for i := range p.Object.Spec.Containers {
			c := fact.Component{Container: &p.Object.Spec.Containers[i]}
			if c.Container.Name == "kube-vip" && on(c, "cp_enable") && p.Object.Spec.NodeName != "" {
				byNode[p.Object.Spec.NodeName] = p
			}
		}
	}
	switch len(byNode) {
	case 0:
		return nil, fact.NotApplicable("no kube-vip holds the API's address")
	case 1:
	default:
		return nil, nil
	}
	var all []rule.Finding
	for node, p := range byNode {
		all = append(all, rule.Finding{
			At:     p.At,
			What:   fmt.Sprintf("kube-vip runs on %s alone of %d control-plane nodes", node, len(control)),
			Effect: rule.Unending("losing node "+node, "nobody has the address, and no client reaches the API"),
			Remedy: "scp " + node + ":/etc/kubernetes/manifests/kube-vip.yaml NODE:/etc/kubernetes/manifests/   # for each other control-plane node",
		})
	}
	return all, nil
}

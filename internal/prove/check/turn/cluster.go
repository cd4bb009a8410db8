package turn

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// vital are the programs of which every instance has to be back before the next
// node goes: the API, and the agents that hold or announce its address.
var vital = []string{"kube-apiserver", "kube-vip", "keepalived", "holdfast-vip"}

// waits is why no node may go down, whichever it is.
func waits(f *fact.Facts) []string {
	var all []string
	for _, n := range f.Nodes.Items {
		switch {
		case !ready(n.Object.Status.Conditions):
			all = append(all, fmt.Sprintf("node %s is not Ready: bring it back first", n.Object.Name))
		case n.Object.Spec.Unschedulable:
			all = append(all, fmt.Sprintf("node %s is cordoned: finish there, then kubectl uncordon %s", n.Object.Name, n.Object.Name))
		}
	}
	for _, p := range f.Pods.Items {
		name := vitalIn(p.Object)
		if name != "" && !podReady(p.Object) && !finished(p.Object) {
			all = append(all, fmt.Sprintf("%s on %s is not ready: they go one by one", name, p.Object.Spec.NodeName))
		}
	}
	return all
}

// vitalIn is the vital program of a pod of the system; "" where it has none.
func vitalIn(p *corev1.Pod) string {
	for i := range p.Spec.Containers {
		if name := p.Spec.Containers[i].Name; slices.Contains(vital, name) && p.Spec.NodeName != "" {
			return name
		}
	}
	return ""
}

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// etcd says whether all members are well: by their own word, or else by the
// readiness of their pods, which asks for a linearizable read.
func etcd(f *fact.Facts) (wait, unknown []string) {
	if f.KnownOf(string(fact.Etcd)).State == fact.Present {
		for _, m := range f.Etcd.Items {
			switch {
			case !m.Object.Healthy:
				wait = append(wait, fmt.Sprintf("etcd's member %s is not healthy: %s", m.Object.Name, m.Object.Error))
			case m.Object.Learner:
				wait = append(wait, fmt.Sprintf("etcd's member %s is a learner still", m.Object.Name))
			}
			for _, alarm := range m.Object.Alarms {
				wait = append(wait, fmt.Sprintf("etcd's member %s has the alarm %s", m.Object.Name, alarm))
			}
		}
		return wait, nil
	}
	pods := members(f)
	if len(pods) == 0 {
		return nil, []string{"etcd: neither the status of its members nor their pods; etcdctl endpoint health --cluster tells"}
	}
	for _, p := range pods {
		if !podReady(p) {
			wait = append(wait, fmt.Sprintf("etcd on %s is not ready", p.Spec.NodeName))
		}
	}
	return wait, nil
}

// members are the pods of the cluster's own etcd.
func members(f *fact.Facts) []*corev1.Pod {
	var all []*corev1.Pod
	for _, p := range f.Pods.Items {
		if p.Object.Namespace == "kube-system" && slices.ContainsFunc(p.Object.Spec.Containers, func(c corev1.Container) bool { return c.Name == "etcd" }) {
			all = append(all, p.Object)
		}
	}
	return all
}

// leaderOf is the node whose member leads etcd; "" where nobody knows.
func leaderOf(f *fact.Facts) string {
	for _, m := range f.Etcd.Items {
		if m.Object.Leader {
			return placeOf(f, m.Object)
		}
	}
	return ""
}

// placeOf is the node that a member is on; "" where it is outside.
func placeOf(f *fact.Facts, m *fact.EtcdMember) string {
	for _, url := range slices.Concat(m.ClientURLs, m.PeerURLs) {
		if n := f.NodeOf(fact.Host(url)); n != nil {
			return n.Name
		}
	}
	if n := f.NodeOf(m.Name); n != nil {
		return n.Name
	}
	return ""
}

// placesOfEtcd are the nodes of the voters, and how many voters there are.
func placesOfEtcd(f *fact.Facts) (nodes []string, voters int) {
	if len(f.Etcd.Items) == 0 {
		for _, p := range members(f) {
			nodes = append(nodes, p.Spec.NodeName)
		}
		return nodes, len(nodes)
	}
	for _, m := range f.Etcd.Items {
		if !m.Object.Learner {
			nodes, voters = append(nodes, placeOf(f, m.Object)), voters+1
		}
	}
	return nodes, voters
}

package turn

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// judge adds what stands against one machine.
func (n *Node) judge(f *fact.Facts, o Options) {
	if n.Role == Router {
		n.judgeRouter(f)
		return
	}
	if n.Role == ControlPlane {
		n.judgeControl(f)
	}
	var here []*corev1.Pod
	for _, p := range f.Pods.Items {
		if p.Object.Spec.NodeName == n.Name && evicted(p.Object) {
			here = append(here, p.Object)
		}
	}
	n.judgeBudgets(f, here)
	n.judgeServices(f, here, o.Accepted)
	for _, p := range here {
		if metav1.GetControllerOf(p) == nil {
			n.Why = append(n.Why, fmt.Sprintf("pod %s/%s has no controller: a drain refuses, and nobody makes it anew", p.Namespace, p.Name))
		}
	}
}

// judgeRouter: the router is part of the control plane; its reboot turns nodes
// NotReady where no other one routes.
func (n *Node) judgeRouter(f *fact.Facts) {
	for _, file := range f.FilesAt("/etc/frr/frr.conf") {
		if file.Object.Node != n.Name && f.NodeOf(file.Object.Node) == nil {
			return
		}
	}
	n.Why = append(n.Why, "it is the only router that is known: while it is away nodes turn NotReady, and addresses are out of reach")
}

// judgeControl asks whether what remains can hold the API, its data and its address.
func (n *Node) judgeControl(f *fact.Facts) {
	if nodes, voters := placesOfEtcd(f); slices.Contains(nodes, n.Name) && voters-1 < voters/2+1 {
		n.Why = append(n.Why, fmt.Sprintf("etcd has %d voters: without %s it takes no writes", voters, n.Name))
	}
	for _, program := range vital {
		here, others := 0, 0
		for _, p := range f.Pods.Items {
			switch {
			case vitalIn(p.Object) != program:
			case p.Object.Spec.NodeName == n.Name:
				here++
			case podReady(p.Object):
				others++
			}
		}
		if here > 0 && others == 0 {
			n.Why = append(n.Why, fmt.Sprintf("no other node has a %s that is ready", program))
		}
	}
}

// evicted says whether a drain takes the pod away: not those of DaemonSets, which
// stay, nor mirrors of static pods, nor what has ended.
func evicted(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	return !mirror && !finished(p) && p.DeletionTimestamp == nil && (owner == nil || owner.Kind != "DaemonSet" && owner.Kind != "Node")
}

// judgeBudgets asks the PodDisruptionBudgets of the pods here.
func (n *Node) judgeBudgets(f *fact.Facts, here []*corev1.Pod) {
	for _, b := range f.PDBs.Items {
		selector, err := metav1.LabelSelectorAsSelector(b.Object.Spec.Selector)
		name := b.Object.Namespace + "/" + b.Object.Name
		if err != nil {
			n.Unknown = append(n.Unknown, fmt.Sprintf("PodDisruptionBudget %s: %v", name, err))
			continue
		}
		i := slices.IndexFunc(here, func(p *corev1.Pod) bool {
			return p.Namespace == b.Object.Namespace && selector.Matches(labels.Set(p.Labels))
		})
		switch {
		case i < 0:
		case b.Object.Status.ObservedGeneration < b.Object.Generation:
			n.Unknown = append(n.Unknown, fmt.Sprintf("PodDisruptionBudget %s has changed, and its controller has not looked yet", name))
		case b.Object.Status.DisruptionsAllowed < 1 && !unreadyMayGo(b.Object, here[i]):
			n.Why = append(n.Why, fmt.Sprintf("PodDisruptionBudget %s allows no eviction now (%d of %d pods well), and %s is here", name, b.Object.Status.CurrentHealthy, b.Object.Status.ExpectedPods, here[i].Name))
		}
	}
}

// unreadyMayGo says that a pod which serves nobody is evicted whatever the budget.
func unreadyMayGo(b *policyv1.PodDisruptionBudget, p *corev1.Pod) bool {
	policy := b.Spec.UnhealthyPodEvictionPolicy
	return policy != nil && *policy == policyv1.AlwaysAllow && !podReady(p)
}

// judgeServices asks of every Service with a ready pod here for another one elsewhere.
func (n *Node) judgeServices(f *fact.Facts, here []*corev1.Pod, accepted []string) {
	for _, s := range f.Services.Items {
		name := s.Object.Namespace + "/" + s.Object.Name
		if len(s.Object.Spec.Selector) == 0 || slices.Contains(accepted, name) {
			continue
		}
		selector := labels.SelectorFromSet(s.Object.Spec.Selector)
		of := func(p *corev1.Pod) bool {
			return p.Namespace == s.Object.Namespace && podReady(p) && selector.Matches(labels.Set(p.Labels))
		}
		if !slices.ContainsFunc(here, of) {
			continue
		}
		if !slices.ContainsFunc(f.Pods.Items, func(p fact.Item[corev1.Pod]) bool { return p.Object.Spec.NodeName != n.Name && of(p.Object) }) {
			n.Why = append(n.Why, fmt.Sprintf("Service %s has no ready pod on another node", name))
		}
	}
}

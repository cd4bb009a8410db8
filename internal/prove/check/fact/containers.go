package fact

import (
	corev1 "k8s.io/api/core/v1"
)

// Containers lists every container once: those of DaemonSets, Deployments and
// StatefulSets, of static pods' manifests, and of pods of which neither is known.
// Name is that of what made the pod.
func (f *Facts) Containers() []Component {
	var all []Component
	made := map[string]bool{}
	add := func(name, node string, pod *corev1.Pod, at Location) {
		made[pod.Namespace+"/"+name] = true
		for i := range pod.Spec.Containers {
			all = append(all, Component{Name: name, Node: node, Container: &pod.Spec.Containers[i], Pod: pod, At: at, Index: i})
		}
	}
	template := func(name, namespace string, t *corev1.PodTemplateSpec, at Location) {
		pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
		pod.Namespace = namespace
		add(name, "", pod, at.below("spec", "template"))
	}
	for _, d := range f.DaemonSets.Items {
		template(d.Object.Name, d.Object.Namespace, &d.Object.Spec.Template, d.At)
	}
	for _, d := range f.Deployments.Items {
		template(d.Object.Name, d.Object.Namespace, &d.Object.Spec.Template, d.At)
	}
	for _, s := range f.StatefulSets.Items {
		template(s.Object.Name, s.Object.Namespace, &s.Object.Spec.Template, s.At)
	}
	for _, p := range f.StaticPods.Items {
		add(p.Object.Name+"-"+p.At.Node, p.At.Node, p.Object, p.At) // as its mirror is called
	}
	for _, p := range f.Pods.Items {
		if name := ownerOf(p.Object); !made[p.Object.Namespace+"/"+name] {
			add(name, p.Object.Spec.NodeName, p.Object, p.At)
		}
	}
	return all
}

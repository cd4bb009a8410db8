package turn

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// cluster is three nodes of the control plane, two workers, and one Deployment of
// two pods behind a Service and a budget.
func cluster() *fact.Facts {
	f := &fact.Facts{Origin: "a test"}
	for _, name := range []string{"w2", "a1", "b2", "c3", "w1"} { // in no order
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if !strings.HasPrefix(name, "w") {
			n.Labels["node-role.kubernetes.io/control-plane"] = ""
			f.Pods.Add(pod("kube-system", "kube-apiserver", name, "Node"), fact.Location{})
			f.Pods.Add(pod("kube-system", "kube-vip", name, "Node"), fact.Location{})
			f.Etcd.Add(&fact.EtcdMember{Name: name, Healthy: true, Leader: name == "a1"}, fact.Location{})
		} else {
			f.Pods.Add(pod("shop", "web", name, "ReplicaSet"), fact.Location{})
		}
		f.Nodes.Add(n, fact.Location{})
	}
	f.Services.Add(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}},
	}, fact.Location{})
	f.PDBs.Add(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, CurrentHealthy: 2, ExpectedPods: 2},
	}, fact.Location{})
	return f
}

func pod(namespace, app, node, owner string) *corev1.Pod {
	yes := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app + "-" + node, Labels: map[string]string{"app": app}}}
	p.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Controller: &yes}}
	p.Spec.NodeName, p.Spec.Containers = node, []corev1.Container{{Name: app}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

// podOf finds a pod by its name.
func podOf(f *fact.Facts, name string) *corev1.Pod {
	i := slices.IndexFunc(f.Pods.Items, func(p fact.Item[corev1.Pod]) bool { return p.Object.Name == name })
	return f.Pods.Items[i].Object
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func nodeOf(f *fact.Facts, name string) *corev1.Node { return f.NodeOf(name) }

// Whose turn it is, and what the answer says, by what is amiss.
func TestNext(t *testing.T) {
	masters := []string{"a1", "b2", "c3"}
	for _, tc := range []struct {
		name  string
		done  []string
		amiss func(*fact.Facts)
		next  string
		says  string
	}{
		{"all well: the leader of etcd is last of its kind", nil, nil, "b2", "one at a time: b2 is next"},
		{"the next of the control plane", []string{"b2"}, nil, "c3", ""},
		{"then the leader", []string{"b2", "c3"}, nil, "a1", "control-plane nodes come first, and a1 is not done"},
		{"then a worker", masters, nil, "w1", ""},
		{"the budget of its pods", masters, func(f *fact.Facts) { f.PDBs.Items[0].Object.Status.DisruptionsAllowed = 0 }, "", "PodDisruptionBudget shop/web allows no eviction"},
		{"a budget that nobody looked at", masters, func(f *fact.Facts) { f.PDBs.Items[0].Object.Generation = 2 }, "", "its controller has not looked yet"},
		{"a Service that is here alone", masters, func(f *fact.Facts) { unready(podOf(f, "web-w2")) }, "w2", "Service shop/web has no ready pod on another node"},
		{"a pod of nobody", masters, func(f *fact.Facts) { podOf(f, "web-w1").OwnerReferences = nil }, "w2", "has no controller"},
		{"a node that is away", nil, func(f *fact.Facts) { nodeOf(f, "w2").Status.Conditions[0].Status = corev1.ConditionUnknown }, "", "node w2 is not Ready"},
		{"a node that was left cordoned", nil, func(f *fact.Facts) { nodeOf(f, "w1").Spec.Unschedulable = true }, "", "kubectl uncordon w1"},
		{"a member of etcd", masters, func(f *fact.Facts) { f.Etcd.Items[1].Object.Healthy = false }, "", "member b2 is not healthy"},
		{"an alarm", nil, func(f *fact.Facts) { f.Etcd.Items[0].Object.Alarms = []string{"NOSPACE"} }, "", "alarm NOSPACE"},
		{"a learner", nil, func(f *fact.Facts) { f.Etcd.Items[2].Object.Learner = true }, "", "learner still"},
		{"two voters", nil, func(f *fact.Facts) { f.Etcd.Items = f.Etcd.Items[:2] }, "c3", "etcd has 2 voters: without a1"},
		{"the agent of the address", nil, func(f *fact.Facts) { unready(podOf(f, "kube-vip-c3")) }, "", "kube-vip on c3 is not ready"},
		{"an apiserver", masters, func(f *fact.Facts) { unready(podOf(f, "kube-apiserver-a1")) }, "", "kube-apiserver on a1 is not ready"},
		{"nobody asked etcd", nil, func(f *fact.Facts) { f.Etcd = fact.Set[fact.EtcdMember]{} }, "", "etcd: neither the status"},
		{"nobody listed budgets", nil, func(f *fact.Facts) { f.PDBs = fact.Set[policyv1.PodDisruptionBudget]{} }, "", "poddisruptionbudgets: no"},
	} {
		f := cluster()
		if tc.amiss != nil {
			tc.amiss(f)
		}
		a, err := Next(f, Options{Done: tc.done})
		if err != nil {
			t.Fatal(err)
		}
		if said := fmt.Sprint(a); a.Next != tc.next || !strings.Contains(said, tc.says) {
			t.Errorf("%s: next %q, want %q and %q: %s", tc.name, a.Next, tc.next, tc.says, said)
		}
	}
}

// etcd's pods tell of its members where nobody asked those, and one alone cannot go.
func TestNextByPodsOfEtcd(t *testing.T) {
	f := cluster()
	f.Etcd = fact.Set[fact.EtcdMember]{}
	for _, node := range []string{"a1", "b2", "c3"} {
		f.Pods.Add(pod("kube-system", "etcd", node, "Node"), fact.Location{})
	}
	if a, _ := Next(f, Options{}); a.Next != "a1" {
		t.Errorf("%+v", a)
	}
	unready(podOf(f, "etcd-c3"))
	if a, _ := Next(f, Options{}); a.Next != "" || !strings.Contains(fmt.Sprint(a.Wait), "etcd on c3") {
		t.Errorf("%+v", a)
	}
}

// Routers come last, and the only one never.
func TestNextOfRouters(t *testing.T) {
	all := []string{"a1", "b2", "c3", "w1", "w2"}
	f := cluster()
	f.Files.Add(&fact.File{Node: "r1", Path: "/etc/frr/frr.conf"}, fact.Location{})
	if a, _ := Next(f, Options{Done: all}); a.Next != "" || !strings.Contains(fmt.Sprint(a), "only router") {
		t.Errorf("%+v", a)
	}
	f.Files.Add(&fact.File{Node: "r2", Path: "/etc/frr/frr.conf"}, fact.Location{})
	if a, _ := Next(f, Options{Done: all}); a.Next != "r1" {
		t.Errorf("%+v", a)
	}
	if a, _ := Next(f, Options{Done: all[:4]}); a.Next != "w2" {
		t.Errorf("%+v", a)
	}
}

func TestNextTakesOptions(t *testing.T) {
	f := cluster()
	unready(podOf(f, "web-w2"))
	done := []string{"a1", "b2", "c3", "w2"}
	if a, _ := Next(f, Options{Done: done}); a.Next != "" {
		t.Errorf("%+v", a)
	}
	if a, _ := Next(f, Options{Done: done, Accepted: []string{"shop/web"}}); a.Next != "w1" {
		t.Errorf("%+v", a)
	}
	if _, err := Next(f, Options{Done: []string{"w9"}}); err == nil {
		t.Error("a node that does not exist was done")
	}
}

// Whatever is amiss, a node that is named leaves the cluster whole: a quorum of etcd,
// an apiserver, nobody else away, and a pod of each Service.
func TestNextIsSafe(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	named := 0
	for range 2000 {
		f := cluster()
		for range r.IntN(3) {
			breakOne(f, r)
		}
		var done []string
		for _, n := range f.Nodes.Items {
			if r.IntN(2) == 0 {
				done = append(done, n.Object.Name)
			}
		}
		a, err := Next(f, Options{Done: done})
		if err != nil {
			t.Fatal(err)
		}
		if a.Next == "" {
			continue
		}
		named++
		if why := unsafe(f, a.Next); why != "" || slices.Contains(done, a.Next) {
			t.Fatalf("%s may not: %s: %+v", a.Next, why, a)
		}
	}
	if named < 100 {
		t.Errorf("only %d times was a node named", named)
	}
}

func breakOne(f *fact.Facts, r *rand.Rand) {
	switch r.IntN(4) {
	case 0:
		unready(f.Pods.Items[r.IntN(len(f.Pods.Items))].Object)
	case 1:
		f.Etcd.Items[r.IntN(len(f.Etcd.Items))].Object.Healthy = false
	case 2:
		f.Nodes.Items[r.IntN(len(f.Nodes.Items))].Object.Status.Conditions[0].Status = corev1.ConditionFalse
	case 3:
		f.PDBs.Items[0].Object.Status.DisruptionsAllowed = 0
	}
}

// unsafe counts what remains, by the bare facts.
func unsafe(f *fact.Facts, next string) string {
	for _, n := range f.Nodes.Items {
		if n.Object.Status.Conditions[0].Status != corev1.ConditionTrue {
			return n.Object.Name + " is away"
		}
	}
	voters, left := 0, 0
	for _, m := range f.Etcd.Items {
		voters++
		if m.Object.Healthy && m.Object.Name != next {
			left++
		}
	}
	if left <= voters/2 {
		return "etcd loses its quorum"
	}
	count := map[string]int{}
	for _, p := range f.Pods.Items {
		if p.Object.Spec.NodeName != next && p.Object.Status.Conditions[0].Status == corev1.ConditionTrue {
			count[p.Object.Labels["app"]]++
		}
	}
	if count["kube-apiserver"] == 0 || count["kube-vip"] == 0 {
		return "nobody serves the API"
	}
	for _, p := range f.Pods.Items {
		if p.Object.Spec.NodeName == next && p.Object.Labels["app"] == "web" && p.Object.Status.Conditions[0].Status == corev1.ConditionTrue && count["web"] == 0 {
			return "shop/web loses its last pod"
		}
	}
	return ""
}

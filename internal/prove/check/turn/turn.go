package turn

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// The roles of machines, in the order in which they go down.
const (
	ControlPlane = "control-plane"
	Worker       = "worker"
	Router       = "router"
)

var order = []string{ControlPlane, Worker, Router}

// Options are what the facts do not tell.
type Options struct {
	// Done are the nodes that the work is finished on.
	Done []string
	// Accepted are Services, as namespace/name, that may be away meanwhile.
	Accepted []string
}

// Answer is whose turn it is.
type Answer struct {
	Version int `json:"version"`
	// AsOf is when the facts were read; zero where nobody knows.
	AsOf time.Time `json:"asOf,omitzero"`
	// Next is the node that may go down now; "" where none may.
	Next string `json:"next"`
	// Wait is why no node may, whichever it is.
	Wait []string `json:"wait"`
	// Unknown is what could not be told, and has to be before a node goes down.
	Unknown []string `json:"unknown"`
	// Nodes are all machines, in the order in which they should go.
	Nodes []Node `json:"nodes"`
}

// Node is a machine and what stands against it now.
type Node struct {
	Name string `json:"name"`
	Role string `json:"role"`
	// Why is why it may not go down now; empty of the next one, and where only Wait
	// or Unknown stand against it.
	Why []string `json:"why"`
	// Unknown is what could not be told of this one.
	Unknown []string `json:"unknown,omitempty"`
	Done    bool     `json:"done,omitempty"`
}

// Next says whose turn it is. An error names an option that fits nothing.
func Next(f *fact.Facts, o Options) (Answer, error) {
	a := Answer{Version: 1, AsOf: f.Collected, Wait: []string{}, Unknown: []string{}}
	for _, kind := range []fact.Kind{fact.Nodes, fact.Pods, fact.Services, fact.PDBs} {
		if k := f.KnownOf(string(kind)); k.State == fact.Unknown {
			a.Unknown = append(a.Unknown, fmt.Sprintf("%s: %s", kind, k.Why))
		}
	}
	a.Nodes = machines(f)
	for _, name := range o.Done {
		i := slices.IndexFunc(a.Nodes, func(n Node) bool { return n.Name == name })
		if i < 0 {
			return a, fmt.Errorf("--done %q: no node of that name", name)
		}
		a.Nodes[i].Done = true
	}
	a.Wait = append(a.Wait, waits(f)...)
	wait, unknown := etcd(f)
	a.Wait, a.Unknown = append(a.Wait, wait...), append(a.Unknown, unknown...)
	for i := range a.Nodes {
		a.Nodes[i].judge(f, o)
	}
	a.choose()
	return a, nil
}

// choose takes the first machine that nothing stands against. One that could be next
// but for what is not known ends the search: the order is part of the answer.
func (a *Answer) choose() {
	var before string // the first that is not done: those of other roles wait for it
	var role string
	for i := range a.Nodes {
		n := &a.Nodes[i]
		switch {
		case n.Done:
			continue
		case role == "":
			before, role = n.Name, n.Role
		case role != n.Role:
			n.Why = append(n.Why, fmt.Sprintf("%s nodes come first, and %s is not done", role, before))
		}
		if len(a.Wait)+len(a.Unknown)+len(n.Why)+len(n.Unknown) == 0 && a.Next == "" {
			a.Next = n.Name
		}
	}
	for i := range a.Nodes {
		if n := &a.Nodes[i]; a.Next != "" && n.Name != a.Next && !n.Done && len(n.Why) == 0 {
			n.Why = append(n.Why, "one at a time: "+a.Next+" is next")
		}
	}
}

// machines lists all of them in the order in which they should go: the control
// plane, of which who leads etcd is last, then workers, then routers.
func machines(f *fact.Facts) []Node {
	control := map[string]bool{}
	for _, n := range f.ControlPlane() {
		control[n.Object.Name] = true
	}
	all := []Node{}
	for _, n := range f.Nodes.Items {
		role := Worker
		if control[n.Object.Name] {
			role = ControlPlane
		}
		all = append(all, Node{Name: n.Object.Name, Role: role, Why: []string{}})
	}
	for _, file := range f.FilesAt("/etc/frr/frr.conf") {
		if f.NodeOf(file.Object.Node) == nil && len(all) > 0 {
			all = append(all, Node{Name: file.Object.Node, Role: Router, Why: []string{}})
		}
	}
	leader := leaderOf(f)
	slices.SortFunc(all, func(a, b Node) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Role), slices.Index(order, b.Role)), last(a.Name == leader, b.Name == leader), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// last puts who leads behind the others: a leader that goes costs an election, and
// of an earlier one the next node might cost another.
func last(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// ready says whether a condition of a name is True.
func ready(conditions []corev1.NodeCondition) bool {
	return slices.ContainsFunc(conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func podReady(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil &&
		slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

package etcd

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

// namespaces are those where the cluster's own etcd runs. An etcd elsewhere is
// somebody's application, or belongs to a cluster within this one.
var namespaces = []string{"", "kube-system", "openshift-etcd"}

// own lists the members of the cluster's own etcd among the pods.
func own(f *fact.Facts) []fact.Component {
	var all []fact.Component
	for _, c := range f.Components("etcd") {
		if slices.Contains(namespaces, c.Pod.Namespace) {
			all = append(all, c)
		}
	}
	return all
}

var errNoEtcd = fact.Lacking("no etcd among the pods: it runs outside the cluster or inside another program")

// runs says whether somewhere a program of the kit runs with a subcommand.
func runs(f *fact.Facts, subcommand string) bool {
	in := func(spec *corev1.PodSpec) bool {
		return slices.ContainsFunc(append(slices.Clone(spec.InitContainers), spec.Containers...), func(c corev1.Container) bool {
			words := append(slices.Clone(c.Command), c.Args...)
			return slices.Contains(words, subcommand) && (strings.HasPrefix(c.Name, "holdfast") || path.Base(words[0]) == "holdfast")
		})
	}
	for _, p := range append(slices.Clone(f.StaticPods.Items), f.Pods.Items...) {
		if in(&p.Object.Spec) {
			return true
		}
	}
	for _, d := range f.DaemonSets.Items {
		if in(&d.Object.Spec.Template.Spec) {
			return true
		}
	}
	return slices.ContainsFunc(f.FilesAt("/etc/systemd/system/holdfast*.service"), func(file fact.Item[fact.File]) bool {
		return strings.Contains(string(file.Object.Data), "holdfast "+subcommand)
	})
}

var evenVoters = rule.Rule{
	ID: "HF-ETCD-002", Group: rule.Etcd, Severity: rule.Warning,
	Title: "etcd has a member too many or too few: even voters, or a learner left over",
	OneOf: []fact.Kind{fact.Etcd, fact.Pods},
	Why: "Two members need both, four need three: each tolerates no more than one fewer, and there is one more machine that may fail. A " +
		"learner that was never promoted costs the leader work and gives no vote.",
	Remedy: "have one, three or five voters; promote or remove a learner",
	Drill:  "site-loss",
	Check:  checkVoters,
}

func checkVoters(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	voters, at := 0, fact.Location{}
	for _, m := range f.Etcd.Items {
		if m.Object.Learner {
			all = append(all, rule.Finding{
				At: m.At, Key: m.Object.Name, What: "member " + m.Object.Name + " is a learner",
				Effect: rule.Unending("losing members up to the quorum", "the learner is of no help, and etcd takes no writes"),
				Remedy: fmt.Sprintf("etcdctl member promote %[1]s   # or: etcdctl member remove %[1]s", m.Object.ID),
			})
			continue
		}
		voters, at = voters+1, m.At
	}
	if voters == 0 {
		if f.Pods.State != fact.Present {
			return all, fact.Lacking("static pods of one node do not tell how many members there are")
		}
		members := own(f)
		if len(members) == 0 {
			return nil, errNoEtcd
		}
		voters, at = len(members), members[0].At
	}
	if voters%2 == 1 || voters == 2 && runs(f, "pair") {
		return all, nil
	}
	remedy := "etcdctl member remove ID   # one that shares its site with another; or add one in a third site: holdfast leader keeps its latency away"
	if voters == 2 {
		remedy = "holdfast pair --help   # runs the two with an arbiter; or: etcdctl member add --learner NAME --peer-urls URL on a third site"
	}
	return append(all, rule.Finding{
		At: at, Key: "voters", Remedy: remedy,
		What:   fmt.Sprintf("etcd has %d voters, and needs %d of them", voters, voters/2+1),
		Effect: rule.Unending(fmt.Sprintf("losing %d of %d members", voters/2, voters), "etcd takes no writes, and the API none"),
	}), nil
}

var nobodyMoves = rule.Rule{
	ID: "HF-ETCD-004", Group: rule.Etcd, Severity: rule.Note,
	Title: "Nobody moves etcd's leader when two zones lose sight of one another",
	Needs: []fact.Kind{fact.Nodes}, OneOf: []fact.Kind{fact.Pods, fact.Files},
	Why: "Where the link between two zones is cut and both still reach a third, the leader keeps its quorum, and the member that lost sight " +
		"of it can elect no other: PreVote and CheckQuorum forbid it. etcd stays so until the link is back (etcd#8129).",
	Remedy: "run holdfast leader beside each member: it moves the leader to one that sees all",
	Drill:  "partial-split",
	Check:  checkMoved,
}

func checkMoved(f *fact.Facts) ([]rule.Finding, error) {
	members := own(f)
	zones := map[string]bool{}
	for _, m := range members {
		zone := f.Zone(m.Node)
		if zone == "" {
			return nil, fact.Lacking("the zone of %s is not known, and it has an etcd member", m.Node)
		}
		zones[zone] = true
	}
	switch {
	case len(members) == 0:
		return nil, errNoEtcd
	case len(zones) < 3:
		return nil, fact.NotApplicable("etcd's members are in fewer than three zones")
	case runs(f, "leader") || len(f.Components("threek")) > 0:
		return nil, nil
	}
	return []rule.Finding{{
		At:     members[0].At,
		What:   fmt.Sprintf("%d members are in %d zones, and none has holdfast leader beside it", len(members), len(zones)),
		Effect: rule.Unending("cutting the leader's zone from another", "the member there has no leader, and its apiserver answers neither writes nor reads"),
		Remedy: "holdfast leader --help   # a static pod beside each member; see docs/guide/leader.md",
	}}, nil
}

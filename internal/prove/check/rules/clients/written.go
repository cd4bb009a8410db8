package clients

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

var written = rule.Rule{
	ID: "HF-CLI-004", Group: rule.Clients, Severity: rule.Warning,
	Title: "A workload was told one control-plane node's address",
	Needs: []fact.Kind{fact.Nodes}, OneOf: []fact.Kind{fact.ConfigMaps, fact.Deployments, fact.DaemonSets, fact.StatefulSets},
	Why: "Operators, pipelines and backup jobs that carry a kubeconfig of their own got it from a server, with its address. They stop " +
		"with that node, also where they are what should repair it.",
	Remedy: "use the Service kubernetes inside of the cluster, and the address of all apiservers outside",
	Drill:  "vip-node-silent",
	Check:  checkWritten,
}

// judgedElsewhere are ConfigMaps of HF-API-001.
var judgedElsewhere = []string{"kube-system/kubeadm-config", "kube-public/cluster-info", "kube-system/kube-proxy"}

// ofControlPlane are programs that have their own machine's address on purpose.
var ofControlPlane = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"}

func checkWritten(f *fact.Facts) ([]rule.Finding, error) {
	find := finder(f.ControlPlane())
	if find == nil {
		return nil, fact.NotApplicable("the cluster has no two control-plane nodes with addresses")
	}
	var all []rule.Finding
	for _, cm := range f.ConfigMaps.Items {
		if slices.Contains(judgedElsewhere, cm.Object.Namespace+"/"+cm.Object.Name) {
			continue
		}
		keys := slices.Sorted(maps.Keys(cm.Object.Data))
		texts := make([]string, len(keys))
		for i, key := range keys {
			texts[i] = cm.Object.Data[key]
		}
		if i, at, node := find(texts); i >= 0 {
			all = append(all, telling(cm.At.Field("data", keys[i]), at, node, keys[i], "kubectl edit configmap"))
		}
	}
	for _, c := range f.Containers() {
		if c.Node != "" || slices.Contains(ofControlPlane, c.Container.Name) {
			continue // pods follow their templates; static pods are of the control plane
		}
		texts, places := told(c)
		if i, at, node := find(texts); i >= 0 {
			all = append(all, telling(places[i], at, node, c.Container.Name, "kubectl edit "+strings.ToLower(c.At.Object.Kind)))
		}
	}
	return all, nil
}

// told are the texts of a container that may name an address, and where.
func told(c fact.Component) (texts []string, places []fact.Location) {
	index := strconv.Itoa(c.Index)
	for _, list := range []struct {
		field string
		of    []string
	}{{"command", c.Container.Command}, {"args", c.Container.Args}} {
		for i, a := range list.of {
			texts, places = append(texts, a), append(places, c.At.Field("spec", "containers", index, list.field, strconv.Itoa(i)))
		}
	}
	for _, e := range c.Container.Env {
		texts, places = append(texts, e.Value), append(places, c.EnvAt(e.Name))
	}
	return texts, places
}

// finder looks for addresses of control-plane nodes with the port of an apiserver.
// It finds the text where exactly one node is named in all of them: who is told of
// several can go to another one. It is nil where there are no two nodes.
func finder(nodes []fact.Item[corev1.Node]) func(texts []string) (at int, address, node string) {
	owner := map[string]string{}
	var quoted []string
	for _, n := range nodes {
		for _, a := range n.Object.Status.Addresses {
			owner[a.Address] = n.Object.Name
			quoted = append(quoted, regexp.QuoteMeta(a.Address))
		}
	}
	if len(nodes) < 2 || len(quoted) == 0 {
		return nil
	}
	re := regexp.MustCompile(`(?:^|[^\w.:-])\[?(` + strings.Join(quoted, "|") + `)\]?:(?:6443|8443|9345)\b`)
	return func(texts []string) (at int, address, node string) {
		at = -1
		for i, text := range texts {
			if !strings.Contains(text, "443") && !strings.Contains(text, "9345") {
				continue
			}
			for _, m := range re.FindAllStringSubmatch(text, -1) {
				if node != "" && owner[m[1]] != node {
					return -1, "", ""
				}
				if at < 0 {
					at, address, node = i, m[1], owner[m[1]]
				}
			}
		}
		return at, address, node
	}
}

func telling(at fact.Location, address, node, key, edit string) rule.Finding {
	return rule.Finding{
		At: at, Key: key, What: fmt.Sprintf("%s names %s, the address of node %s, as that of the API", key, address, node),
		Effect: rule.Unending("losing node "+node, "what goes by it has no API"),
		Remedy: fmt.Sprintf("%s %s -n %s   # https://kubernetes.default.svc inside of the cluster, the address of all apiservers outside", edit, at.Object.Name, at.Object.Namespace),
	}
}

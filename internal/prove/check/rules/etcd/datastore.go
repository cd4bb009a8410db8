package etcd

import (
	"fmt"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

var singleDatastore = rule.Rule{
	ID: "HF-ETCD-008", Group: rule.Etcd, Severity: rule.Error,
	Title: "k3s keeps the cluster in one SQLite file on one machine",
	Needs: []fact.Kind{fact.Files},
	Why: "Without --cluster-init, --server or --datastore-endpoint a k3s server keeps everything in SQLite. A second server cannot join, and " +
		"with the machine goes the cluster, down to its last backup.",
	Remedy: "start the server once with --cluster-init, which moves the data into etcd; then join two more servers",
	Drill:  "site-loss",
	Check:  checkDatastore,
}

// shared are settings of a k3s server that make its datastore another than SQLite.
var shared = []string{"cluster-init", "server", "datastore-endpoint"}

// etcdLabel is that of a node of k3s or RKE2 that has an etcd member.
const etcdLabel = "node-role.kubernetes.io/etcd"

func checkDatastore(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	servers := 0
	for _, unit := range f.FilesAt("/etc/systemd/system/k3s.service") {
		text := string(unit.Object.Data)
		if !strings.Contains(text, "k3s server") && !strings.Contains(text, "'server'") && !strings.Contains(text, "\n    server") {
			continue
		}
		servers++
		node := unit.Object.Node
		if settled(f, node, text) {
			continue
		}
		if n := f.NodeOf(node); n != nil && n.Labels[etcdLabel] != "" {
			continue // it was started with --cluster-init once
		}
		all = append(all, rule.Finding{
			At: unit.At, Key: node,
			What:   fmt.Sprintf("k3s on %s is a server with none of --cluster-init, --server and --datastore-endpoint", node),
			Effect: rule.Unending("losing "+node, "there is no API, and its disk has the only copy of the cluster"),
			Remedy: "# on " + node + ", once:\necho 'cluster-init: true' >> /etc/rancher/k3s/config.yaml && systemctl restart k3s\n# then on two more machines:\nk3s server --token … --server https://ADDRESS:6443",
		})
	}
	if servers == 0 {
		return nil, fact.NotApplicable("no server of k3s")
	}
	return all, nil
}

// settled says whether a server's unit or its config.yaml name another datastore.
func settled(f *fact.Facts, node, unit string) bool {
	for _, name := range shared {
		if strings.Contains(unit, "--"+name) {
			return true
		}
	}
	files := append(f.FilesAt("/etc/rancher/k3s/config.yaml"), f.FilesAt("/etc/rancher/k3s/config.yaml.d/*.yaml")...)
	for _, file := range files {
		for line := range strings.Lines(string(file.Object.Data)) {
			key, _, _ := strings.Cut(line, ":")
			for _, name := range shared {
				if file.Object.Node == node && strings.TrimSpace(key) == name {
					return true
				}
			}
		}
	}
	return false
}

package supervise

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// owner is a system that runs etcd itself and starts it again whatever others do.
type owner struct {
	name string
	// marks are paths that only machines of the system have: there nothing
	// else can run etcd.
	marks []string
	// beneath are where it keeps its data and manifests, units what it runs as.
	beneath, units []string
	remedy         string
}

var owners = []owner{
	{
		name: "Talos", marks: []string{"system/secrets/etcd", "usr/local/etc/talos"}, beneath: []string{"/system"},
		remedy: "run the pair on machines outside Talos",
	},
	{
		name: "OpenShift", marks: []string{"etc/kubernetes/static-pod-resources/etcd-certs", "etc/kubernetes/static-pod-resources/bin/etcd-ensure-env"},
		remedy: "its etcd operator would put the static pod back; use its own two-node feature",
	},
	{
		name: "k3s", beneath: []string{"/var/lib/rancher/k3s"}, units: []string{"k3s", "k3s-server"},
		remedy: "etcd is part of k3s's own process; run the pair beside it and give k3s --datastore-endpoint",
	},
	{
		name: "RKE2", beneath: []string{"/var/lib/rancher/rke2"}, units: []string{"rke2-server"},
		remedy: "RKE2 would start it again; run the pair beside it and give RKE2 --datastore-endpoint",
	},
	{
		name: "k0s", beneath: []string{"/var/lib/k0s"}, units: []string{"k0scontroller"},
		remedy: "k0s would start it again; run the pair beside it and give k0s spec.storage.etcd.externalCluster",
	},
}

// owned refuses an etcd that belongs to another system: on this machine, which
// root is "/" of, or with one of these units, data directories and manifests.
func owned(root string, what ...string) error {
	for _, o := range owners {
		for _, mark := range o.marks {
			if _, err := os.Stat(filepath.Join(root, mark)); err == nil {
				return refuse(Foreign, o.remedy, "this machine's etcd belongs to %s (%s)", o.name, filepath.Join("/", mark))
			}
		}
		for _, w := range what {
			if o.has(w) {
				return refuse(Foreign, o.remedy, "%s belongs to %s, which runs etcd itself", w, o.name)
			}
		}
	}
	return nil
}

func (o owner) has(what string) bool {
	if slices.Contains(o.units, strings.TrimSuffix(what, ".service")) {
		return true
	}
	return slices.ContainsFunc(o.beneath, func(dir string) bool { return what == dir || strings.HasPrefix(what, dir+"/") })
}

package source

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// NodeFiles are the files of a node that rules may look at, as patterns of
// path.Match. Nothing else of a machine is opened, and none of these is a key.
var NodeFiles = []string{
	"/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/run/systemd/resolve/resolv.conf", "/etc/nsswitch.conf", "/etc/os-release", "/proc/cmdline",
	"/etc/kubernetes/*.conf", "/etc/kubernetes/manifests/*.yaml", "/etc/kubernetes/manifests/*.yml", "/etc/kubernetes/manifests/*.json",
	"/var/lib/kubelet/config.yaml", "/var/lib/kubelet/kubeconfig", "/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet", "/etc/sysconfig/kubelet",
	"/etc/systemd/system/kubelet.service.d/*.conf", "/usr/lib/systemd/system/kubelet.service.d/*.conf",
	"/etc/rancher/k3s/config.yaml", "/etc/rancher/rke2/config.yaml", "/etc/rancher/k3s/config.yaml.d/*.yaml", "/etc/rancher/rke2/config.yaml.d/*.yaml",
	"/etc/rancher/k3s/k3s.yaml", "/etc/rancher/rke2/rke2.yaml",
	"/var/lib/rancher/rke2/agent/pod-manifests/*.yaml", "/var/lib/rancher/k3s/agent/pod-manifests/*.yaml",
	"/var/lib/rancher/rke2/agent/kubelet.kubeconfig", "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
	"/var/lib/rancher/k3s/agent/etc/*-load-balancer.json", "/var/lib/rancher/rke2/agent/etc/*-load-balancer.json",
	"/etc/systemd/system/holdfast*.service", "/etc/systemd/system/k3s.service", "/etc/systemd/system/k3s-agent.service", "/etc/systemd/system/etcd.service", "/etc/etcd/etcd.conf", "/etc/default/etcd",
	"/etc/systemd/system/k3s-agent.service.env", "/etc/default/rke2-agent", "/etc/sysconfig/rke2-agent",
	"/system/state/config.yaml", "/etc/cni/net.d/*",
	"/etc/keepalived/keepalived.conf", "/etc/keepalived/*.sh", "/etc/keepalived/conf.d/*.conf", "/etc/haproxy/*.cfg", "/etc/nginx/*.conf", "/etc/nginx/conf.d/*.conf", "/etc/frr/frr.conf", "/etc/frr/daemons", "/etc/frr/bgpd.conf",
	"/etc/systemd/network/*", "/etc/netplan/*.yaml", "/etc/network/interfaces", "/etc/network/interfaces.d/*", "/etc/NetworkManager/system-connections/*",
	"/etc/systemd/resolved.conf", "/etc/systemd/timesyncd.conf", "/etc/chrony/chrony.conf", "/etc/chrony.conf",
	"/etc/needrestart/needrestart.conf", "/etc/needrestart/conf.d/*.conf", "/etc/apt/apt.conf.d/*", "/etc/dnf/automatic.conf", "/etc/yum/yum-cron.conf",
	"/etc/sysctl.conf", "/etc/sysctl.d/*.conf", "/proc/sys/net/ipv4/ip_nonlocal_bind", "/proc/sys/net/ipv4/tcp_retries2", "/sys/devices/system/cpu/possible",
}

func openMachine(root string) (machine, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return machine{}, fmt.Errorf("read node: %w", plain(err))
	}
	return machine{r, hostname(r)}, nil
}

// hostname is the machine's own name, which is that of its Node mostly.
func hostname(r *os.Root) string {
	data, err := fs.ReadFile(r.FS(), "etc/hostname")
	name := strings.TrimSpace(string(data))
	if err != nil || name == "" || strings.ContainsAny(name, "/\\") || name == ".." {
		return "node"
	}
	return cmp.Or(name, "node")
}

// machine is a tree of the files of one node.
type machine struct {
	root *os.Root
	node string
}

func (m machine) walk(visit func(entry) error, bad func(string, error)) error {
	for _, pattern := range NodeFiles {
		for _, name := range m.glob(pattern) {
			if err := m.one(name, visit, bad); err != nil {
				return err
			}
		}
	}
	return nil
}

// glob lists the files of one pattern, whose last element alone has stars.
func (m machine) glob(pattern string) []string {
	dir, base := path.Split(pattern)
	if !strings.ContainsAny(base, "*?[") {
		return []string{pattern}
	}
	entries, err := fs.ReadDir(m.root.FS(), strings.Trim(dir, "/"))
	if err != nil {
		return nil // a directory that is not there has no files
	}
	var all []string
	for _, e := range entries {
		if ok, _ := path.Match(base, e.Name()); ok {
			all = append(all, dir+e.Name())
		}
	}
	return all
}

func (m machine) one(name string, visit func(entry) error, bad func(string, error)) error {
	f, err := m.root.OpenFile(m.resolve(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	at := nodePath(m.node, name)
	if err != nil {
		bad(at, plain(err))
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		bad(at, plain(err))
		return nil
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	// Files of /proc say that they are empty.
	var data bytes.Buffer
	if _, err := data.ReadFrom(&meter{r: f, left: maxNodeFile}); err != nil {
		bad(at, plain(err))
		return nil
	}
	return visit(entry{name: at, size: int64(data.Len()), mode: info.Mode(), r: &data})
}

// resolve follows links, of which absolute ones begin at the machine's own root.
func (m machine) resolve(name string) string {
	name = strings.TrimPrefix(path.Clean(name), "/")
	for range 10 {
		target, err := m.root.Readlink(name)
		if err != nil {
			break // not a link, or not there
		}
		if !path.IsAbs(target) {
			target = path.Join("/", path.Dir(name), target)
		}
		name = strings.TrimPrefix(path.Clean(target), "/")
	}
	return name
}

// maxNodeFile is more than any file of settings has.
const maxNodeFile = 4 << 20

package slices

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	stdslices "slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

//go:embed manifests/*.tmpl
var manifestFiles embed.FS

var manifestTemplates = template.Must(template.New("").Funcs(template.FuncMap{
	"lines": func(s string) []string { return strings.Split(s, "\n") },
	"join":  func(s []string) string { return strings.Join(s, ", ") },
	"quote": func(s []string) string { return `"` + strings.Join(s, `", "`) + `"` },
}).ParseFS(manifestFiles, "manifests/*.tmpl"))

// manifest holds what the printed manifests depend on.
type manifest struct {
	Image, Binary, Config, Kubeconfig, User, Distribution string
	Servers, Nodes, Witnesses                             []string
	// AnyNode: rights are not bound to the objects of Nodes.
	AnyNode bool
}

// plain is what may stand in a manifest: enough for names, paths, URLs and image
// references, and nothing that YAML or systemd could read otherwise.
var plain = regexp.MustCompile(`^[][A-Za-z0-9./:@_=-]*$`)

// distribution says what a distribution keeps where.
type distribution struct {
	CA, Cert, Key string
	// Mounts are what a static pod needs to read those, and no more.
	Mounts []mount
	// Manifests is where its kubelet reads static pods.
	Manifests string
	// After is the unit of systemd that starts the apiserver.
	After string
	// Account says how to make the kubeconfig of an agent that is no pod of a
	// service account.
	Account string
	// Reconciler says how the apiservers' own is switched off.
	Reconciler string
	// Servers are the balancer of the node and its own apiserver, where those are
	// not at the usual ports.
	Servers []string
	// Refuses says why a kind of manifest cannot work there, and what can.
	Refuses map[string]string
}

// mount is something of the node that a pod sees under the same path.
type mount struct {
	Path string
	Type string // of a hostPath volume: File or Directory
}

var (
	kubeletPEM  = "/var/lib/kubelet/pki/kubelet-client-current.pem"
	kubeletCA   = "/etc/kubernetes/pki/ca.crt"
	kubeletPKI  = []mount{{kubeletCA, "File"}, {"/var/lib/kubelet/pki", "Directory"}}
	tokenConfig = "kubectl -n kube-system create token holdfast-slices --duration=8760h\n" +
		"makes a token; put it beside the cluster's CA into a kubeconfig of mode 0600, and\n" +
		"replace it before it expires."
)

// distributions follow their documentation and sources: how arguments reach a
// kube-apiserver, and where certificates are (see also `holdfast balance manifest`).
var distributions = map[string]distribution{
	"kubeadm": {
		CA: kubeletCA, Cert: kubeletPEM, Key: kubeletPEM, Mounts: kubeletPKI,
		Manifests: "/etc/kubernetes/manifests/holdfast-slices.yaml", After: "kubelet.service",
		Account: "kubeadm kubeconfig user --client-name holdfast-slices\n" +
			"prints one of a year; bind that user by `holdfast slices manifest rbac --user holdfast-slices`.",
		Reconciler: "endpoint-reconciler-type: none below apiServer.extraArgs of the ClusterConfiguration,\n" +
			"and in /etc/kubernetes/manifests/kube-apiserver.yaml, one node after the other.",
	},
	"k3s": {
		CA: "/var/lib/rancher/k3s/agent/server-ca.crt", Cert: "/var/lib/rancher/k3s/agent/client-kubelet.crt", Key: "/var/lib/rancher/k3s/agent/client-kubelet.key",
		Mounts: []mount{
			{"/var/lib/rancher/k3s/agent/server-ca.crt", "File"}, {"/var/lib/rancher/k3s/agent/client-kubelet.crt", "File"}, {"/var/lib/rancher/k3s/agent/client-kubelet.key", "File"},
		},
		Manifests: "/var/lib/rancher/k3s/agent/pod-manifests/holdfast-slices.yaml", After: "k3s.service", Account: tokenConfig,
		Reconciler: "kube-apiserver-arg: [endpoint-reconciler-type=none] in /etc/rancher/k3s/config.yaml of\n" +
			"each server, then systemctl restart k3s, one after the other."},
	"rke2": {
		CA: "/var/lib/rancher/rke2/agent/server-ca.crt", Cert: "/var/lib/rancher/rke2/agent/client-kubelet.crt", Key: "/var/lib/rancher/rke2/agent/client-kubelet.key",
		Mounts: []mount{
			{"/var/lib/rancher/rke2/agent/server-ca.crt", "File"}, {"/var/lib/rancher/rke2/agent/client-kubelet.crt", "File"}, {"/var/lib/rancher/rke2/agent/client-kubelet.key", "File"},
		},
		Manifests: "/var/lib/rancher/rke2/agent/pod-manifests/holdfast-slices.yaml", After: "rke2-server.service", Account: tokenConfig,
		Reconciler: "kube-apiserver-arg: [endpoint-reconciler-type=none] in /etc/rancher/rke2/config.yaml of\n" +
			"each server, then systemctl restart rke2-server, one after the other.",
	},
	"talos": {
		CA: kubeletCA, Cert: kubeletPEM, Key: kubeletPEM,
		// KubePrism has 7445, where the balancer is elsewhere.
		Servers: []string{"https://127.0.0.1:7446", "https://127.0.0.1:6443"},
		Reconciler: "cluster.apiServer.extraArgs: {endpoint-reconciler-type: none} in the machine config of\n" +
			"each control plane, one after the other. Workers find trustd by EndpointSlice\n" +
			"default/kubernetes, which only the agents keep from then on.",
		Refuses: map[string]string{
			"systemd":    "Talos runs no units but its own; print daemonset",
			"static-pod": "a static pod has no service account, and Talos no place for the kubeconfig that it would need instead; print daemonset",
		},
	},
}

var manifestKinds = []string{"daemonset", "static-pod", "systemd", "rbac", "settings"}

// SliceNames and LeaseNames are what an agent may change where the nodes are known.
func (m manifest) SliceNames() []string {
	all := []string{plan.ServiceName}
	for _, n := range m.Nodes {
		all = append(all, plan.SliceName(n, plan.IPv4), plan.SliceName(n, plan.IPv6))
	}
	return all
}

func (m manifest) LeaseNames() []string {
	all := []string{lockName}
	for _, n := range m.Nodes {
		all = append(all, leaseName(n))
	}
	return all
}

// check refuses what would not come out as it was meant.
func (m manifest) check(kind string) error {
	for name, values := range map[string][]string{
		"image": {m.Image}, "binary": {m.Binary}, "config": {m.Config}, "kubeconfig": {m.Kubeconfig}, "user": {m.User},
		"server": m.Servers, "node": m.Nodes, "witness": m.Witnesses,
	} {
		for _, value := range values {
			if !plain.MatchString(value) {
				return fmt.Errorf("--%s %q: only letters, digits and . / : @ _ = - [ ] may stand there", name, value)
			}
		}
	}
	for _, n := range m.Nodes {
		if !dnsName.MatchString(n) || len(n) > mostName {
			return fmt.Errorf("--node %q: cannot be the name of a Node; write it as kubectl get nodes shows it", n)
		}
	}
	for _, z := range m.Witnesses {
		if !labelValue.MatchString(z) {
			return fmt.Errorf("--witness %q: is no zone; write it as the label topology.kubernetes.io/zone has it", z)
		}
	}
	for _, s := range m.Servers {
		if _, err := kubeapi.New(kubeapi.Config{Server: s, Token: "x"}); err != nil {
			return fmt.Errorf("--%w", err)
		}
	}
	if err := m.checkBound(kind); err != nil {
		return err
	}
	d, ok := distributions[m.Distribution]
	if !ok {
		return fmt.Errorf("--distribution %q: write kubeadm, k3s, rke2 or talos", m.Distribution)
	}
	if why := d.Refuses[kind]; why != "" {
		return fmt.Errorf("manifest %s, --distribution %s: %s", kind, m.Distribution, why)
	}
	return nil
}

// checkBound wants a word on whose objects may be changed, where rights are in the
// manifest: Leases in kube-system are those of the cluster's own parts, too.
func (m manifest) checkBound(kind string) error {
	switch {
	case m.AnyNode && len(m.Nodes) > 0:
		return errors.New("--any-node beside --node: leave one of them out")
	case kind != "rbac" && kind != "daemonset" || m.AnyNode || len(m.Nodes) > 0:
		return nil
	}
	return fmt.Errorf("manifest %s: name every control-plane node with --node (kubectl get nodes -l node-role.kubernetes.io/control-plane -o name), for rights are bound to their objects; or give --any-node, and agents may change every EndpointSlice in default and every Lease in kube-system", kind)
}

// write prints the manifest of the given kind.
func (m manifest) write(w io.Writer, kind string) error {
	if err := m.check(kind); err != nil {
		return err
	}
	if kind == "settings" {
		_, err := io.WriteString(w, Sample)
		return err
	}
	if len(m.Servers) == 0 {
		m.Servers = distributions[m.Distribution].Servers
	}
	file := kind + ".yaml.tmpl"
	if kind == "systemd" {
		file = "systemd.service.tmpl"
	}
	if err := manifestTemplates.ExecuteTemplate(w, file, struct {
		manifest
		On distribution
	}{m, distributions[m.Distribution]}); err != nil {
		return fmt.Errorf("print manifest: %w", err)
	}
	return nil
}

func manifestCommand() *cobra.Command {
	m := manifest{
		Image: "holdfast:latest", Binary: "/usr/bin/holdfast", Config: "/etc/holdfast/slices.yaml",
		Kubeconfig: "/etc/holdfast/slices.kubeconfig", Distribution: "kubeadm",
	}
	cmd := &cobra.Command{
		Use:   "manifest " + strings.Join(manifestKinds, "|"),
		Short: "Print what to install on control-plane nodes",
		Long: "Print what to install on control-plane nodes. daemonset holds everything and is right for\n" +
			"most clusters. static-pod and systemd start without the API; they need a kubeconfig, and\n" +
			"what rbac prints. settings is a settings file with every key and a comment on each.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !stdslices.Contains(manifestKinds, args[0]) {
				return fmt.Errorf("manifest: %q; write one of %s", args, strings.Join(manifestKinds, ", "))
			}
			return nil
		},
		ValidArgs: manifestKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			return m.write(cmd.OutOrStdout(), args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&m.Distribution, "distribution", m.Distribution, "kubeadm, k3s, rke2 or talos")
	f.StringVar(&m.Image, "image", m.Image, "image with the holdfast binary as entry point")
	f.StringVar(&m.Binary, "binary", m.Binary, "path of the binary (systemd)")
	f.StringVar(&m.Config, "config", m.Config, "path of the settings file (systemd)")
	f.StringVar(&m.Kubeconfig, "kubeconfig", m.Kubeconfig, "credentials of the agent (static-pod, systemd)")
	f.StringVar(&m.User, "user", m.User, "bind a user as well as the service account (rbac, daemonset)")
	f.StringSliceVar(&m.Servers, "server", nil, "URLs of the API (default: the balancer of the node, then its own apiserver)")
	f.StringSliceVar(&m.Nodes, "node", nil, "names of all control-plane nodes: rights are bound to their objects (rbac, daemonset)")
	f.BoolVar(&m.AnyNode, "any-node", false, "do not bind rights to nodes: agents may change every EndpointSlice in default and Lease in kube-system")
	f.StringSliceVar(&m.Witnesses, "witness", nil, "zones whose apiservers adopt first, best first")
	return cmd
}

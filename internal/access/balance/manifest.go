package balance

import (
	"embed"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/access/balance/haproxy"
)

//go:embed manifests/*.tmpl
var manifestFiles embed.FS

var manifestTemplates = template.Must(template.New("").Funcs(template.FuncMap{"lines": func(s string) []string { return strings.Split(s, "\n") }}).ParseFS(manifestFiles, "manifests/*.tmpl"))

// manifest holds what the printed manifests depend on.
type manifest struct {
	Image, Zone, Binary, Config, Distribution string
	Backends                                  []string
}

// plain is what may stand in a manifest: enough for names, paths and image
// references, and nothing that YAML or systemd could read otherwise.
var plain = regexp.MustCompile(`^[][A-Za-z0-9./:@_=-]*$`)

// node says what a distribution keeps where, and who starts whom on its nodes.
type node struct {
	CA, Cert, Key string
	// Mounts are what a pod needs to read those, and no more: the directory of
	// kubeadm's CA holds the CA's key, too.
	Mounts []mount
	// Manifests is where its kubelet reads static pods.
	Manifests string
	// Listen is set where something of its own has 127.0.0.1:7445.
	Listen string
	// Waits is the systemd unit that must not start before the balancer.
	Waits string
	// Point says who is pointed at the balancer, and how.
	Point string
	// Refuses says why a kind of manifest cannot work there, and what can.
	Refuses map[string]string
}

// mount is something of the node that a pod sees under the same path.
type mount struct {
	Path string
	Type string // of a hostPath volume: File or Directory
}

// What kubeadm and Talos have in common. The kubelet's certificate is a link
// that moves within its directory; the CA stays one file.
var (
	kubeletPKI = []mount{{"/etc/kubernetes/pki/ca.crt", "File"}, {"/var/lib/kubelet/pki", "Directory"}}
	kubeletPEM = "/var/lib/kubelet/pki/kubelet-client-current.pem"
)

// nodes are the distributions that the kubelet's certificate is known of. What
// is said of them follows their sources and documentation: k3s
// pkg/agent/run.go (the agent validates its server before it starts anything),
// RKE2 pkg/cli/cmds/agent.go (disable-apiserver-lb is dropped), Talos
// controllers/secrets/kubelet.go and controllers/k8s/static_endpoint.go.
var nodes = map[string]node{
	"kubeadm": {
		CA: "/etc/kubernetes/pki/ca.crt", Cert: kubeletPEM, Key: kubeletPEM,
		Mounts: kubeletPKI, Manifests: "/etc/kubernetes/manifests/holdfast-balance.yaml", Waits: "kubelet.service",
		Point: "the kubelet: server: https://127.0.0.1:7445 in /etc/kubernetes/kubelet.conf, with\n" +
			"tls-server-name: kubernetes beside it unless 127.0.0.1 is among the apiservers'\n" +
			"certSANs, then systemctl restart kubelet: it starts static pods before it needs an\n" +
			"apiserver. Once every node has a balancer, kube-proxy: the same in its ConfigMap.",
	},
	"k3s": {
		CA: "/var/lib/rancher/k3s/agent/server-ca.crt", Cert: "/var/lib/rancher/k3s/agent/client-kubelet.crt", Key: "/var/lib/rancher/k3s/agent/client-kubelet.key",
		Waits: "k3s-agent.service",
		Point: "the k3s agent: server: https://127.0.0.1:7445 and disable-apiserver-lb: true in\n" +
			"/etc/rancher/k3s/config.yaml (its own balancer would go past this one), or K3S_URL\n" +
			"where that names the server; then systemctl restart k3s-agent. From then on the\n" +
			"agent starts nothing until this unit serves. Servers use their own apiserver.",
		Refuses: map[string]string{
			"static-pod": "its agent starts no pod before it has reached its server, so that server cannot be a pod; print systemd, or daemonset for clients other than the agent",
		},
	},
	"rke2": {
		CA: "/var/lib/rancher/rke2/agent/server-ca.crt", Cert: "/var/lib/rancher/rke2/agent/client-kubelet.crt", Key: "/var/lib/rancher/rke2/agent/client-kubelet.key",
		Mounts: []mount{
			{"/var/lib/rancher/rke2/agent/server-ca.crt", "File"}, {"/var/lib/rancher/rke2/agent/client-kubelet.crt", "File"}, {"/var/lib/rancher/rke2/agent/client-kubelet.key", "File"},
		},
		Manifests: "/var/lib/rancher/rke2/agent/pod-manifests/holdfast-balance.yaml", Waits: "rke2-agent.service",
		Point: "clients other than RKE2's own. Its agent keeps its own balancer for kubelet and\n" +
			"supervisor (port 9345), which cannot be pointed elsewhere or switched off, and\n" +
			"starts no pod before it has reached a server: where that is too late, print systemd.",
	},
	"talos": {
		CA: "/etc/kubernetes/pki/ca.crt", Cert: kubeletPEM, Key: kubeletPEM,
		Mounts: kubeletPKI, Manifests: "machine.pods of the machine config", Listen: "127.0.0.1:7446",
		Point: "clients other than Talos' own, a CNI on the host's network say: at 127.0.0.1:7446.\n" +
			"Leave KubePrism on: the kubelet and the control plane use its port, on which only\n" +
			"Talos listens. With it off workers use cluster.controlPlane.endpoint, and control\n" +
			"planes their own apiserver. Do not make 127.0.0.1 that endpoint: a worker looks\n" +
			"there for trustd as well.",
		Refuses: map[string]string{"systemd": "Talos runs no units but its own; print static-pod or daemonset"},
	},
}

// objectName is what the name of an object in Kubernetes may be made of
// (RFC 1123, in lower case).
var objectName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// write prints the manifest of the given kind.
func (m manifest) write(w io.Writer, kind string) error {
	for name, values := range map[string][]string{
		"image": {m.Image}, "zone": {m.Zone}, "binary": {m.Binary}, "config": {m.Config}, "backend": m.Backends,
	} {
		for _, value := range values {
			if !plain.MatchString(value) {
				return fmt.Errorf("--%s %q: only letters, digits and . / : @ _ = - [ ] may stand there", name, value)
			}
		}
	}
	n, ok := nodes[m.Distribution]
	if !ok {
		return fmt.Errorf("--distribution %q: write kubeadm, k3s, rke2 or talos", m.Distribution)
	}
	if why := n.Refuses[kind]; why != "" {
		return fmt.Errorf("manifest %s, --distribution %s: %s", kind, m.Distribution, why)
	}
	if kind == "daemonset" && m.Zone != "" && !objectName.MatchString(m.Zone) {
		return fmt.Errorf("--zone %q: it becomes part of a name, of lower-case letters, digits, - and . there; print the manifest without it, and add name and nodeSelector by hand", m.Zone)
	}
	if kind != "systemd" && len(m.Backends) == 0 {
		return fmt.Errorf("manifest %s: give every apiserver by --backend IP:PORT", kind)
	}
	file := map[string]string{"static-pod": "static-pod.yaml.tmpl", "daemonset": "daemonset.yaml.tmpl", "systemd": "systemd.service.tmpl"}[kind]
	if err := manifestTemplates.ExecuteTemplate(w, file, struct {
		manifest
		Node node
	}{m, n}); err != nil {
		return fmt.Errorf("print manifest: %w", err)
	}
	return nil
}

var manifestKinds = []string{"static-pod", "daemonset", "systemd", "settings", "haproxy-import"}

func manifestCommand() *cobra.Command {
	m := manifest{Image: "holdfast:latest", Binary: "/usr/bin/holdfast", Config: "/etc/holdfast/balance.yaml", Distribution: "kubeadm"}
	cmd := &cobra.Command{
		Use:   "manifest static-pod|daemonset|systemd|settings|haproxy-import [FILE]",
		Short: "Print what to install, or haproxy.cfg as settings",
		Long: "Print what to install, and how the kubelet is pointed at it. settings is a settings file\n" +
			"with every key and a comment on each. haproxy-import reads a simple\n" +
			"haproxy.cfg (a file, or - for stdin) and prints the equivalent settings; what cannot be\n" +
			"carried over is named on stderr.",
		Args: func(_ *cobra.Command, args []string) error {
			most := 1
			if len(args) > 0 && args[0] == "haproxy-import" {
				most = 2
			}
			if len(args) != most || !strings.Contains(" "+strings.Join(manifestKinds, " ")+" ", " "+args[0]+" ") {
				return fmt.Errorf("manifest: %q; write one of static-pod, daemonset, systemd, settings, or haproxy-import FILE", args)
			}
			return nil
		},
		ValidArgs: manifestKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "haproxy-import" {
				return importHAProxy(cmd, args[1])
			}
			if args[0] == "settings" {
				_, err := io.WriteString(cmd.OutOrStdout(), Sample)
				return err
			}
			return m.write(cmd.OutOrStdout(), args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&m.Image, "image", m.Image, "image with the holdfast binary as entry point")
	f.StringVar(&m.Zone, "zone", m.Zone, "zone of the node; of all nodes that a DaemonSet then selects")
	f.StringVar(&m.Binary, "binary", m.Binary, "path of the binary (systemd)")
	f.StringVar(&m.Config, "config", m.Config, "path of the settings file (systemd)")
	f.StringVar(&m.Distribution, "distribution", m.Distribution, "kubeadm, k3s, rke2 or talos")
	f.StringSliceVar(&m.Backends, "backend", nil, "IP:PORT of an apiserver (repeat)")
	return cmd
}

// importHAProxy prints settings on stdout and what they lack on stderr.
func importHAProxy(cmd *cobra.Command, path string) error {
	in := cmd.InOrStdin()
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("read haproxy.cfg: %w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	settings, notes, err := haproxy.Import(in, path)
	if err != nil {
		return err
	}
	for _, n := range notes {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), n)
	}
	if _, err := cmd.OutOrStdout().Write(settings); err != nil {
		return fmt.Errorf("print settings: %w", err)
	}
	return nil
}

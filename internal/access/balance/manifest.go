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

// node says where a distribution keeps what the manifests point to.
type node struct {
	CA, Cert, Key string
	// Mounts are the directories that a pod needs to read those.
	Mounts []string
	// Manifests is where its kubelet reads static pods.
	Manifests string
	// Point says how the kubelet is pointed at the balancer.
	Point string
}

// nodes are the distributions that the kubelet's certificate is known of.
var nodes = map[string]node{
	"kubeadm": {
		CA: "/etc/kubernetes/pki/ca.crt", Cert: "/var/lib/kubelet/pki/kubelet-client-current.pem", Key: "/var/lib/kubelet/pki/kubelet-client-current.pem",
		Mounts: []string{"/etc/kubernetes/pki", "/var/lib/kubelet/pki"}, Manifests: "/etc/kubernetes/manifests/holdfast-balance.yaml",
		Point: "the kubelet: server: https://127.0.0.1:7445 in /etc/kubernetes/kubelet.conf, with\n" +
			"tls-server-name: kubernetes beside it unless 127.0.0.1 is among the apiservers'\n" +
			"certSANs, then systemctl restart kubelet; kube-proxy: the same in its ConfigMap.",
	},
	"k3s": {
		CA: "/var/lib/rancher/k3s/agent/server-ca.crt", Cert: "/var/lib/rancher/k3s/agent/client-kubelet.crt", Key: "/var/lib/rancher/k3s/agent/client-kubelet.key",
		Mounts: []string{"/var/lib/rancher/k3s/agent"}, Manifests: "/var/lib/rancher/k3s/agent/pod-manifests/holdfast-balance.yaml",
		Point: "the k3s agent: server: https://127.0.0.1:7445 and disable-apiserver-lb: true in\n" +
			"/etc/rancher/k3s/config.yaml (its own balancer would go past this one), then restart\n" +
			"k3s-agent. The servers' port 6443 carries the supervisor as well.",
	},
	"rke2": {
		CA: "/var/lib/rancher/rke2/agent/server-ca.crt", Cert: "/var/lib/rancher/rke2/agent/client-kubelet.crt", Key: "/var/lib/rancher/rke2/agent/client-kubelet.key",
		Mounts: []string{"/var/lib/rancher/rke2/agent"}, Manifests: "/var/lib/rancher/rke2/agent/pod-manifests/holdfast-balance.yaml",
		Point: "other clients on the node. RKE2 agents keep their own balancer for kubelet and\n" +
			"supervisor (port 9345), which cannot be pointed elsewhere.",
	},
	"talos": {
		CA: "/etc/kubernetes/pki/ca.crt", Cert: "/var/lib/kubelet/pki/kubelet-client-current.pem", Key: "/var/lib/kubelet/pki/kubelet-client-current.pem",
		Mounts: []string{"/etc/kubernetes/pki", "/var/lib/kubelet/pki"}, Manifests: "machine.pods in the machine config",
		Point: "switch KubePrism off (machine.features.kubePrism.enabled: false) and keep\n" +
			"cluster.controlPlane.endpoint; 127.0.0.1:7445 is where Talos' own components look already.",
	},
}

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
	f.StringVar(&m.Zone, "zone", m.Zone, "zone of the node")
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

package vip

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/address/services"
)

//go:embed manifests/*.tmpl
var manifestFiles embed.FS

var manifestTemplates = template.Must(template.New("").ParseFS(manifestFiles, "manifests/*.tmpl"))

// manifest is what the templates are filled with.
type manifest struct {
	Image, Binary, Config string
	// Label of the machines that a DaemonSet runs on, KEY or KEY=VALUE.
	Label string
	// Mounts are further files or directories that checks read.
	Mounts []string
	// Services has the DaemonSet answer for Services of type LoadBalancer, and
	// print its rights.
	Services bool
	// Pool are the addresses for them.
	Pool []string
}

// File is the name of the settings in Dir.
func (m manifest) File() string { return filepath.Base(m.Config) }

// Namespace of the DaemonSet and its Leases.
func (m manifest) Namespace() string { return "kube-system" }

var manifestKinds = []string{"static-pod", "daemonset", "systemd", "rbac", "settings"}

// plain is what may stand in a manifest: nothing that YAML or systemd could read
// otherwise.
var plain = regexp.MustCompile(`^[A-Za-z0-9./:@_=-]*$`)

// Dir holds the settings.
func (m manifest) Dir() string { return filepath.Dir(m.Config) }

// Selector is Label as YAML.
func (m manifest) Selector() string {
	key, value, _ := strings.Cut(m.Label, "=")
	return fmt.Sprintf("{%s: %q}", key, value)
}

func (m manifest) check() error {
	for name, values := range map[string][]string{"image": {m.Image}, "binary": {m.Binary}, "config": {m.Config}, "label": {m.Label}, "mount": m.Mounts, "pool": m.Pool} {
		for _, value := range values {
			if !plain.MatchString(value) {
				return fmt.Errorf("--%s %q: only letters, digits and . / : @ _ = - may stand there", name, value)
			}
		}
	}
	for _, path := range append([]string{m.Config}, m.Mounts...) {
		if !filepath.IsAbs(path) || filepath.Dir(path) == "/" {
			return fmt.Errorf("--config, --mount %q: write an absolute path below a directory of its own", path)
		}
	}
	for _, text := range m.Pool {
		if _, err := services.ParseSpan(text); err != nil {
			return fmt.Errorf("--pool %w; write FIRST-LAST, NETWORK/BITS or one address", err)
		}
	}
	return nil
}

// write prints the manifest of the given kind.
func (m manifest) write(w io.Writer, kind string) error {
	if kind == "settings" {
		_, err := io.WriteString(w, Sample)
		return err
	}
	if err := m.check(); err != nil {
		return err
	}
	if m.Services && kind == "daemonset" && len(m.Pool) == 0 {
		return errors.New("--services: no addresses; add --pool FIRST-LAST, NETWORK/BITS or one address")
	}
	file := kind + ".yaml.tmpl"
	if kind == "systemd" {
		file = "systemd.service.tmpl"
	}
	files := []string{file}
	if m.Services && kind == "daemonset" {
		files = []string{"rbac.yaml.tmpl", file}
	}
	for i, file := range files {
		if i > 0 {
			if _, err := io.WriteString(w, "---\n"); err != nil {
				return fmt.Errorf("print manifest: %w", err)
			}
		}
		if err := manifestTemplates.ExecuteTemplate(w, file, m); err != nil {
			return fmt.Errorf("print manifest: %w", err)
		}
	}
	return nil
}

func manifestCommand() *cobra.Command {
	m := manifest{
		Image: "holdfast:latest", Binary: "/usr/bin/holdfast", Config: "/etc/holdfast/vip.yaml",
		Label: "node-role.kubernetes.io/control-plane",
	}
	cmd := &cobra.Command{
		Use:   "manifest " + strings.Join(manifestKinds, "|"),
		Short: "Print what to install on the machines that may hold the addresses",
		Long: "Print what to install on the machines that may hold the addresses. It needs the capabilities\n" +
			"NET_ADMIN and NET_RAW, and no others. settings is a settings file with every key and a\n" +
			"comment on each; rbac are the rights that Services need (daemonset --services prints both).",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(manifestKinds, args[0]) {
				return fmt.Errorf("manifest: %q; write one of %s", args, strings.Join(manifestKinds, ", "))
			}
			return nil
		},
		ValidArgs: manifestKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if m.Services && !cmd.Flags().Changed("label") {
				m.Label = "kubernetes.io/os=linux" // every machine that may have an endpoint
			}
			return m.write(cmd.OutOrStdout(), args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&m.Image, "image", m.Image, "image with the holdfast binary as entry point")
	f.StringVar(&m.Binary, "binary", m.Binary, "path of the binary (systemd)")
	f.StringVar(&m.Config, "config", m.Config, "path of the settings file")
	f.StringVar(&m.Label, "label", m.Label, "label of the machines, KEY or KEY=VALUE (daemonset)")
	f.BoolVar(&m.Services, "services", false, "answer for Services of type LoadBalancer, and print the rights for it (daemonset)")
	f.StringSliceVar(&m.Pool, "pool", nil, "addresses for Services: FIRST-LAST, NETWORK/BITS or one (daemonset --services)")
	f.StringSliceVar(&m.Mounts, "mount", nil, "files or directories that checks read, such as /var/lib/kubelet/pki (static-pod, daemonset)")
	return cmd
}

package leader

import (
	"embed"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
)

//go:embed manifests/*.tmpl
var manifestFiles embed.FS

var manifestTemplates = template.Must(template.ParseFS(manifestFiles, "manifests/*.tmpl"))

// manifest holds what the printed manifests depend on.
type manifest struct {
	Image, Zone, PKI, Binary, Config, User  string
	APIVersion, LabelKey, LabelValue, Label string
	Volume, Namespace                       string
}

func defaultManifest() manifest {
	return manifest{
		Image: "holdfast:latest", PKI: "/etc/kubernetes/pki/etcd", Binary: "/usr/bin/holdfast",
		Config: "/etc/holdfast/leader.yaml", User: "root", APIVersion: "v1beta1", Label: "app.kubernetes.io/name=etcd",
		Volume: "certs", Namespace: "etcd-system",
	}
}

// plain is what may stand in a manifest: enough for names, paths and image
// references, and nothing that YAML, CEL or systemd could read otherwise.
var plain = regexp.MustCompile(`^[A-Za-z0-9./:@_=-]*$`)

// write prints the manifest of the given kind.
func (m manifest) write(w io.Writer, kind string) error {
	for name, value := range map[string]string{
		"image": m.Image, "zone": m.Zone, "pki": m.PKI, "binary": m.Binary, "config": m.Config, "user": m.User,
		"api-version": m.APIVersion, "label": m.Label, "volume": m.Volume, "namespace": m.Namespace,
	} {
		if !plain.MatchString(value) {
			return fmt.Errorf("--%s %q: only letters, digits and . / : @ _ = - may stand there", name, value)
		}
	}
	var ok bool
	if m.LabelKey, m.LabelValue, ok = strings.Cut(m.Label, "="); !ok {
		return fmt.Errorf("--label %q: write key=value", m.Label)
	}
	file, ok := map[string]string{
		"static-pod": "static-pod.yaml.tmpl", "sidecar-policy": "sidecar-policy.yaml.tmpl", "systemd": "systemd.service.tmpl",
	}[kind]
	if !ok {
		return fmt.Errorf("manifest %q: write static-pod, sidecar-policy or systemd", kind)
	}
	if err := manifestTemplates.ExecuteTemplate(w, file, m); err != nil {
		return fmt.Errorf("print manifest: %w", err)
	}
	return nil
}

func manifestCommand() *cobra.Command {
	m := defaultManifest()
	cmd := &cobra.Command{
		Use:   "manifest static-pod|sidecar-policy|systemd",
		Short: "Print what to install",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("manifest: %d kinds given; write one of static-pod, sidecar-policy, systemd", len(args))
			}
			return nil
		},
		ValidArgs: []string{"static-pod", "sidecar-policy", "systemd"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return m.write(cmd.OutOrStdout(), args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&m.Image, "image", m.Image, "image with the holdfast binary as entry point")
	f.StringVar(&m.Zone, "zone", m.Zone, "zone of the member (static-pod)")
	f.StringVar(&m.PKI, "pki", m.PKI, "directory with etcd's certificates")
	f.StringVar(&m.Binary, "binary", m.Binary, "path of the binary (systemd)")
	f.StringVar(&m.Config, "config", m.Config, "path of the settings file (systemd)")
	f.StringVar(&m.User, "user", m.User, "user that may read etcd's keys (systemd)")
	f.StringVar(&m.APIVersion, "api-version", m.APIVersion, "v1beta1 (1.34, 1.35) or v1 (1.36 on) (sidecar-policy)")
	f.StringVar(&m.Label, "label", m.Label, "label of the operator's etcd pods (sidecar-policy)")
	f.StringVar(&m.Volume, "volume", m.Volume, "volume of those pods with the peer certificate (sidecar-policy)")
	f.StringVar(&m.Namespace, "namespace", m.Namespace, "namespace of those pods (sidecar-policy)")
	return cmd
}

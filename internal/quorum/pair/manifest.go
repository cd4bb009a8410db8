package pair

import (
	"embed"
	"fmt"
	"io"
	"regexp"
	"text/template"

	"github.com/spf13/cobra"
)

//go:embed manifests/*.tmpl
var manifestFiles embed.FS

var manifestTemplates = template.Must(template.ParseFS(manifestFiles, "manifests/*.tmpl"))

// manifest holds what the printed manifests depend on.
type manifest struct {
	Binary, Config, User, Etcd string
	Name, Peer, Arbiter        string
}

// harmless is what may stand in a manifest: nothing that YAML or systemd could read
// otherwise.
var harmless = regexp.MustCompile(`^[A-Za-z0-9./:@_=,?& -]*$`)

// write prints the manifest of the given kind.
func (m manifest) write(w io.Writer, kind string) error {
	for name, value := range map[string]string{
		"binary": m.Binary, "config": m.Config, "user": m.User, "etcd": m.Etcd, "name": m.Name, "peer": m.Peer, "arbiter": m.Arbiter,
	} {
		if !harmless.MatchString(value) {
			return fmt.Errorf("--%s %q: only letters, digits, spaces and . / : @ _ = , ? & - may stand there", name, value)
		}
	}
	file, ok := map[string]string{"systemd": "systemd.service.tmpl", "settings": "settings.yaml.tmpl"}[kind]
	if !ok {
		return fmt.Errorf("manifest %q: write systemd or settings", kind)
	}
	if err := manifestTemplates.ExecuteTemplate(w, file, m); err != nil {
		return fmt.Errorf("print manifest: %w", err)
	}
	return nil
}

func manifestCommand() *cobra.Command {
	m := manifest{
		Binary: "/usr/bin/holdfast", Config: "/etc/holdfast/pair.yaml", User: "root", Etcd: "/usr/bin/etcd --config-file /etc/etcd/etcd.yaml",
		Name: "a", Peer: "b", Arbiter: "https://arbiter.example.com:8443/pairs/prod",
	}
	cmd := &cobra.Command{
		Use:   "manifest systemd|settings",
		Short: "Print what to install",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("manifest: %d kinds given; write one of systemd, settings", len(args))
			}
			return nil
		},
		ValidArgs: []string{"systemd", "settings"},
		RunE:      func(cmd *cobra.Command, args []string) error { return m.write(cmd.OutOrStdout(), args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&m.Binary, "binary", m.Binary, "path of the binary (systemd)")
	f.StringVar(&m.Config, "config", m.Config, "path of the settings file (systemd)")
	f.StringVar(&m.User, "user", m.User, "user that runs the agent and etcd (systemd)")
	f.StringVar(&m.Etcd, "etcd", m.Etcd, "etcd and its arguments (systemd)")
	f.StringVar(&m.Name, "name", m.Name, "this member's name (settings)")
	f.StringVar(&m.Peer, "peer", m.Peer, "the other member's name (settings)")
	f.StringVar(&m.Arbiter, "arbiter", m.Arbiter, "URL of the arbiter's record (settings)")
	return cmd
}

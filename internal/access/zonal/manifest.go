package zonal

import (
	"embed"
	"fmt"
	"io"
	"regexp"
	"text/template"

	"github.com/holdfast-ha/holdfast/internal/access/datapath"
)

//go:embed manifests/*.tmpl
var manifestFiles embed.FS

var manifestTemplates = template.Must(template.ParseFS(manifestFiles, "manifests/*.tmpl"))

// manifest holds what the printed manifest depends on.
type manifest struct {
	Image, Namespace, Datapath string
	// Namespaces are those whose Services it may write; none means all.
	Namespaces []string
}

func defaultManifest() manifest {
	return manifest{Image: "holdfast:latest", Namespace: defaultNamespace, Datapath: "auto"}
}

// image is what may stand in a manifest as one: enough for references with
// digest, and nothing that YAML could read otherwise.
var image = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9./:@_-]*$`)

// write prints the manifest.
func (m manifest) write(w io.Writer) error {
	if !image.MatchString(m.Image) {
		return fmt.Errorf("--image %q: only letters, digits and . / : @ _ - may stand there", m.Image)
	}
	if !label.MatchString(m.Namespace) {
		return fmt.Errorf("--install-namespace %q: not a namespace; write one such as %s", m.Namespace, defaultNamespace)
	}
	for _, n := range m.Namespaces {
		if !label.MatchString(n) {
			return fmt.Errorf("--namespace %q: not a namespace; leave it out for all", n)
		}
	}
	if _, _, err := datapath.Parse(m.Datapath); err != nil {
		return fmt.Errorf("--%w", err)
	}
	if err := manifestTemplates.ExecuteTemplate(w, "deployment.yaml.tmpl", m); err != nil {
		return fmt.Errorf("print manifest: %w", err)
	}
	return nil
}

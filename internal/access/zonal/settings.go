package zonal

import (
	_ "embed"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/datapath"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
	"github.com/holdfast-ha/holdfast/internal/base/lease"
	"github.com/holdfast-ha/holdfast/internal/base/telemetry"
)

// Sample is a zonal.yaml with every key and a comment on each.
//
//go:embed sample.yaml
var Sample string

// Settings is zonal.yaml. What is left out has its default.
type Settings struct {
	API APISettings `yaml:"api"`
	// Namespaces are those whose Services are looked at; none means all.
	Namespaces []string `yaml:"namespaces"`
	// Datapath is auto, kube-proxy, cilium or cilium-1.19; for warnings only.
	Datapath string `yaml:"datapath"`
	// DryRun decides and reports, but writes nothing, not even the Lease.
	DryRun    bool               `yaml:"dryRun"`
	Lease     LeaseSettings      `yaml:"lease"`
	Telemetry telemetry.Settings `yaml:"telemetry"`
	Log       telemetry.Log      `yaml:"log"`
}

// APISettings say how the API is reached.
type APISettings struct {
	// Kubeconfig holds the credentials; "" is the service account of the pod.
	Kubeconfig string `yaml:"kubeconfig"`
	Context    string `yaml:"context"`
	// Servers are URLs of API servers of the cluster, the preferred one first;
	// none means the server of the credentials.
	Servers []string `yaml:"servers"`
}

// LeaseSettings say by which Lease replicas agree who acts.
type LeaseSettings struct {
	// Namespace is that of the pod, where it is left out.
	Namespace string        `yaml:"namespace"`
	Name      string        `yaml:"name"`
	Duration  time.Duration `yaml:"duration"`
}

const (
	// defaultTelemetry is free in the port lists of kubeadm, k3s, RKE2 and Talos.
	defaultTelemetry = "127.0.0.1:9388"
	defaultNamespace = "kube-system"
)

func defaultSettings() Settings {
	return Settings{
		Datapath:  "auto",
		Lease:     LeaseSettings{Name: owner, Duration: lease.DefaultDuration},
		Telemetry: telemetry.Settings{Listen: defaultTelemetry},
		Log:       telemetry.Log{Level: "info", Format: "text"},
	}
}

// label is what a namespace may be called (RFC 1123).
var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// complete checks the settings and fills in what was left out.
func (s *Settings) complete() error {
	if _, _, err := datapath.Parse(s.Datapath); err != nil {
		return err
	}
	for i, n := range s.Namespaces {
		if !label.MatchString(n) || slices.Contains(s.Namespaces[:i], n) {
			return fmt.Errorf("namespaces: %q is not a namespace or stands there twice; name each once, or leave the list out for all", n)
		}
	}
	for i, server := range s.API.Servers {
		if u, err := url.Parse(server); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return fmt.Errorf("api.servers[%d]: %q is not a URL; write https://HOST:PORT", i, server)
		}
	}
	if s.Lease.Namespace == "" {
		s.Lease.Namespace = ownNamespace()
	}
	switch d := s.Lease.Duration; {
	case !label.MatchString(s.Lease.Namespace):
		return fmt.Errorf("lease.namespace: %q is not a namespace; write one such as %s", s.Lease.Namespace, defaultNamespace)
	case !label.MatchString(s.Lease.Name):
		return fmt.Errorf("lease.name: %q is not the name of a Lease; write one such as %s", s.Lease.Name, owner)
	case d < 5*time.Second || d > 10*time.Minute || d%time.Second != 0:
		return fmt.Errorf("lease.duration: %s; write whole seconds from 5s to 10m", d)
	}
	return nil
}

// ownNamespace is the pod's, else kube-system.
func ownNamespace() string {
	data, err := os.ReadFile(kubeapi.ServiceAccountDir + "/namespace")
	if n := strings.TrimSpace(string(data)); err == nil && label.MatchString(n) {
		return n
	}
	return defaultNamespace
}

// scope is what followers are started for: "" alone is all namespaces.
func (s *Settings) scope() []string {
	if len(s.Namespaces) == 0 {
		return []string{""}
	}
	return s.Namespaces
}

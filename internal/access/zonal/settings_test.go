package zonal

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/internal/base/config"
)

func TestSampleHasEveryKeyAndIsAccepted(t *testing.T) {
	s := defaultSettings()
	if err := config.Decode(strings.NewReader(Sample), "zonal.yaml", &s); err != nil {
		t.Fatal(err)
	}
	if err := s.complete(); err != nil {
		t.Fatal(err)
	}
	if len(s.Namespaces) != 1 || s.Lease.Duration != 15*time.Second || len(s.API.Servers) != 2 || s.Telemetry.Listen != defaultTelemetry {
		t.Errorf("%+v", s)
	}
	for _, key := range []string{"api:", "kubeconfig:", "context:", "servers:", "namespaces:", "datapath:", "dryRun:", "lease:", "namespace:", "name:", "duration:", "telemetry:", "listen:", "log:", "format:", "level:"} {
		if !strings.Contains(Sample, key) {
			t.Errorf("the sample lacks %s", key)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"datapath: ovn", `datapath: "ovn"; write auto, kube-proxy, cilium or cilium-1.19`},
		{"namespaces: [a, a]", `namespaces: "a" is not a namespace or stands there twice; name each once, or leave the list out for all`},
		{"namespaces: [A_b]", `namespaces: "A_b" is not a namespace`},
		{"api: {servers: [10.0.0.1]}", `api.servers[0]: "10.0.0.1" is not a URL; write https://HOST:PORT`},
		{"lease: {duration: 1s}", `lease.duration: 1s; write whole seconds from 5s to 10m`},
		{"lease: {duration: 7500ms}", `lease.duration: 7.5s; write whole seconds from 5s to 10m`},
		{"lease: {namespace: A}", `lease.namespace: "A" is not a namespace; write one such as kube-system`},
		{"lease: {name: A}", `lease.name: "A" is not the name of a Lease; write one such as holdfast-zonal`},
		{"leese: {}", `zonal.yaml:1: field "leese": unknown; did you mean "lease"?`},
	} {
		s := defaultSettings()
		err := config.Decode(strings.NewReader(c.in), "zonal.yaml", &s)
		if err == nil {
			err = s.complete()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", c.in, err, c.want)
		}
	}
}

func TestFlagsWinOverTheEnvironment(t *testing.T) {
	t.Setenv("HOLDFAST_ZONAL_DATAPATH", "cilium")
	t.Setenv("HOLDFAST_ZONAL_NAMESPACE", "shop,web")
	settings, path := defaultSettings(), ""
	cmd := &cobra.Command{}
	bindFlags(cmd, &settings, &path)
	if err := cmd.Flags().Parse([]string{"--datapath", "kube-proxy"}); err != nil {
		t.Fatal(err)
	}
	if err := config.Layer(cmd, envPrefix, &path, &settings); err != nil {
		t.Fatal(err)
	}
	if settings.Datapath != "kube-proxy" || len(settings.Namespaces) != 2 {
		t.Errorf("%+v", settings)
	}
}

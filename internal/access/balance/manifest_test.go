package balance

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/base/config"
)

var update = flag.Bool("update", false, "rewrite golden files")

// printed is the manifest of the given kind for a test.
func printed(t *testing.T, kind, distribution, zone string) string {
	t.Helper()
	m := manifest{
		Image: "registry.example.org/holdfast:1", Zone: zone, Binary: "/usr/bin/holdfast", Config: "/etc/holdfast/balance.yaml",
		Distribution: distribution, Backends: []string{"10.0.0.1:6443", "[fd00::2]:6443"},
	}
	var out bytes.Buffer
	if err := m.write(&out, kind); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestManifests(t *testing.T) {
	for _, c := range []struct{ kind, distribution, zone string }{
		{"static-pod", "kubeadm", "a"}, {"static-pod", "rke2", "a"}, {"static-pod", "talos", "a"},
		{"daemonset", "kubeadm", ""}, {"daemonset", "talos", "1"},
		{"systemd", "kubeadm", "a"}, {"systemd", "k3s", "a"}, {"systemd", "rke2", ""},
	} {
		t.Run(c.kind+" on "+c.distribution, func(t *testing.T) {
			got := printed(t, c.kind, c.distribution, c.zone)
			golden := filepath.Join("testdata", "manifests", c.kind+"-"+c.distribution+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("differs from %s; run with -update and look at the diff", golden)
			}
			if c.kind != "systemd" {
				wellFormed(t, []byte(got))
			}
		})
	}
}

// podSpec is what tests look at in a pod.
type podSpec struct {
	Grace      int               `yaml:"terminationGracePeriodSeconds"`
	Selector   map[string]string `yaml:"nodeSelector"`
	Containers []struct {
		Args     []string `yaml:"args"`
		Pull     string   `yaml:"imagePullPolicy"`
		Liveness any      `yaml:"livenessProbe"`
		Mounts   []struct {
			Path string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
	} `yaml:"containers"`
}

func TestStaticPodSeesItsCertificatesAndNoMore(t *testing.T) {
	for distribution, n := range nodes {
		if n.Refuses["static-pod"] != "" {
			continue
		}
		t.Run(distribution, func(t *testing.T) {
			var pod struct {
				Spec podSpec `yaml:"spec"`
			}
			if err := yaml.Unmarshal([]byte(printed(t, "static-pod", distribution, "a")), &pod); err != nil {
				t.Fatal(err)
			}
			c := pod.Spec.Containers[0]
			for _, file := range []string{n.CA, n.Cert, n.Key} {
				seen := false
				for _, m := range c.Mounts {
					seen = seen || m.Path == file || m.Path == filepath.Dir(file)
				}
				if !seen {
					t.Errorf("%s is not mounted", file)
				}
			}
			for _, m := range c.Mounts {
				if m.Path == "/etc/kubernetes/pki" || strings.HasSuffix(m.Path, "/agent") {
					t.Errorf("%s is mounted: a control plane has the CA's key below it", m.Path)
				}
			}
			flags := runCommand().Flags()
			if err := flags.Parse(c.Args[2:]); err != nil {
				t.Error(err)
			}
			drain, err := flags.GetDuration("drain")
			if err != nil || drain >= time.Duration(pod.Spec.Grace)*time.Second {
				t.Errorf("drain %s (%v) does not fit into %d s of grace", drain, err, pod.Spec.Grace)
			}
			if c.Pull != "IfNotPresent" || c.Liveness != nil {
				t.Errorf("pull policy %q, liveness probe %v; a node cut off must start it, and nothing may kill it", c.Pull, c.Liveness)
			}
		})
	}
}

func TestDaemonSetOfAZoneSelectsItsNodes(t *testing.T) {
	for zone, want := range map[string]map[string]string{
		"": nil, "1": {"topology.kubernetes.io/zone": "1"}, "eu-west-1a": {"topology.kubernetes.io/zone": "eu-west-1a"},
	} {
		text := printed(t, "daemonset", "kubeadm", zone)
		var set struct {
			Spec struct {
				Template struct {
					Spec podSpec `yaml:"spec"`
				} `yaml:"template"`
			} `yaml:"spec"`
		}
		if err := yaml.Unmarshal([]byte(text[strings.LastIndex(text, "---"):]), &set); err != nil {
			t.Fatal(err)
		}
		if got := set.Spec.Template.Spec.Selector; !maps.Equal(got, want) {
			t.Errorf("zone %q: selects %v, want %v", zone, got, want)
		}
	}
}

// TestSystemdUnitShowsSettingsThatWork reads the settings in the head of the
// unit as settings.
func TestSystemdUnitShowsSettingsThatWork(t *testing.T) {
	text := printed(t, "systemd", "k3s", "a")
	_, text, _ = strings.Cut(text, "At least:\n")
	text, _, _ = strings.Cut(text, "\n# Reload")
	s := defaultSettings()
	if err := config.Decode(strings.NewReader(strings.ReplaceAll(text, "#   ", "")), "balance.yaml", &s); err != nil {
		t.Fatal(err)
	}
	if s.Zone != "a" || len(s.Frontends) != 1 || len(s.Frontends[0].Backends.Static) != 2 {
		t.Errorf("read as %+v", s)
	}
}

// wellFormed reads every document, and the settings within one as settings.
func wellFormed(t *testing.T, text []byte) {
	t.Helper()
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var doc struct {
			Kind string            `yaml:"kind"`
			Data map[string]string `yaml:"data"`
		}
		err := dec.Decode(&doc)
		if err != nil {
			if err.Error() != "EOF" {
				t.Fatal(err)
			}
			return
		}
		if settings, ok := doc.Data["balance.yaml"]; ok {
			s := defaultSettings()
			if err := config.Decode(strings.NewReader(settings), "balance.yaml", &s); err != nil {
				t.Error(err)
			}
			if err := s.complete(t.TempDir()); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestManifestRefuses(t *testing.T) {
	good := manifest{Distribution: "kubeadm", Backends: []string{"10.0.0.1:6443"}}
	for _, c := range []struct {
		name, kind string
		change     func(*manifest)
		want       []string // all of these
	}{
		{"what it cannot quote", "static-pod", func(m *manifest) { m.Backends[0] += "\n- evil" }, []string{"--backend"}},
		{"a distribution it does not know", "static-pod", func(m *manifest) { m.Distribution = "nixos" }, []string{"--distribution", "kubeadm"}},
		{"no backends", "daemonset", func(m *manifest) { m.Backends = nil }, []string{"--backend"}},
		{"a zone that makes no name", "daemonset", func(m *manifest) { m.Zone = "Zone_A" }, []string{"--zone"}},
		{"a pod that its own node waits for", "static-pod", func(m *manifest) { m.Distribution = "k3s" }, []string{"--distribution k3s", "systemd"}},
		{"a unit without systemd", "systemd", func(m *manifest) { m.Distribution = "talos" }, []string{"--distribution talos", "static-pod"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := good
			m.Backends = slices.Clone(good.Backends)
			c.change(&m)
			err := m.write(&bytes.Buffer{}, c.kind)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want a line with %q", err, want)
				}
			}
		})
	}
}

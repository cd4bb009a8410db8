package slices

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/base/config"
)

var update = flag.Bool("update", false, "rewrite golden files")

func aManifest(on string) manifest {
	return manifest{
		Image: "registry.example.org/holdfast:1", Binary: "/usr/bin/holdfast", Config: "/etc/holdfast/slices.yaml",
		Kubeconfig: "/etc/holdfast/slices.kubeconfig", Distribution: on, Witnesses: []string{"c"}, Nodes: []string{"cp-a", "cp-b"},
	}
}

func TestManifests(t *testing.T) {
	for _, c := range []struct {
		kind, on string
		change   func(*manifest)
	}{
		{"daemonset", "kubeadm", nil},
		{"daemonset", "talos", nil},
		{"daemonset", "rke2", func(m *manifest) {
			m.Nodes, m.AnyNode = nil, true
			m.Servers = []string{"https://127.0.0.1:7445", "https://10.0.0.2:6443"}
		}},
		{"static-pod", "kubeadm", nil}, {"static-pod", "rke2", nil}, {"static-pod", "k3s", nil},
		{"systemd", "k3s", nil}, {"systemd", "rke2", nil},
		{"rbac", "kubeadm", func(m *manifest) { m.Nodes, m.User = []string{"cp1", "cp2"}, "holdfast-slices" }},
	} {
		t.Run(c.kind+" on "+c.on, func(t *testing.T) {
			m := aManifest(c.on)
			if c.change != nil {
				c.change(&m)
			}
			var out bytes.Buffer
			if err := m.write(&out, c.kind); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "manifests", c.kind+"-"+c.on+".txt")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if out.String() != string(want) {
				t.Errorf("differs from %s; run with -update and look at the diff", golden)
			}
			if c.kind != "systemd" {
				wellFormed(t, out.Bytes())
			}
		})
	}
}

// wellFormed reads every document, the settings within one as settings, and the
// arguments of a container as flags.
func wellFormed(t *testing.T, text []byte) {
	t.Helper()
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var doc struct {
			Kind string            `yaml:"kind"`
			Data map[string]string `yaml:"data"`
			Spec struct {
				Containers []struct {
					Args []string `yaml:"args"`
				} `yaml:"containers"`
			} `yaml:"spec"`
		}
		if err := dec.Decode(&doc); err != nil {
			if err.Error() != "EOF" {
				t.Fatal(err)
			}
			return
		}
		if doc.Kind == "" {
			t.Error("a document without kind")
		}
		if settings, ok := doc.Data["slices.yaml"]; ok {
			s := goodSettings()
			if err := config.Decode(strings.NewReader(settings), "slices.yaml", &s); err != nil {
				t.Error(err)
			}
			if err := s.complete(t.TempDir()); err != nil {
				t.Error(err)
			}
		}
		for _, c := range doc.Spec.Containers {
			if err := runCommand().Flags().Parse(c.Args[2:]); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestManifestRefuses(t *testing.T) {
	for _, c := range []struct {
		name, kind, on string
		change         func(*manifest)
		want           string
	}{
		{"what it cannot quote", "rbac", "kubeadm", func(m *manifest) { m.User = "x\n- evil" }, "--user"},
		{"a node that is none", "rbac", "kubeadm", func(m *manifest) { m.Nodes = []string{"Node_1"} }, "--node"},
		{"a server that is none", "daemonset", "kubeadm", func(m *manifest) { m.Servers = []string{"10.0.0.1:6443"} }, "--server"},
		{"a distribution it does not know", "daemonset", "nixos", nil, "--distribution"},
		{"rights to everything, unasked", "rbac", "kubeadm", func(m *manifest) { m.Nodes = nil }, "manifest rbac: name every control-plane node with --node"},
		{"the same with more around it", "daemonset", "k3s", func(m *manifest) { m.Nodes = nil }, "or give --any-node"},
		{"both", "rbac", "kubeadm", func(m *manifest) { m.AnyNode = true }, "--any-node beside --node"},
		{"a unit without systemd", "systemd", "talos", nil, "daemonset"},
		{"a static pod without a place for its kubeconfig", "static-pod", "talos", nil, "daemonset"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := aManifest(c.on)
			if c.change != nil {
				c.change(&m)
			}
			err := m.write(&bytes.Buffer{}, c.kind)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a line with %q", err, c.want)
			}
		})
	}
}

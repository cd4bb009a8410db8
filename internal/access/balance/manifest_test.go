package balance

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

func TestManifests(t *testing.T) {
	for _, c := range []struct{ kind, distribution string }{
		{"static-pod", "kubeadm"}, {"static-pod", "k3s"}, {"static-pod", "rke2"}, {"static-pod", "talos"},
		{"daemonset", "kubeadm"}, {"systemd", "kubeadm"}, {"systemd", "k3s"},
	} {
		t.Run(c.kind+" on "+c.distribution, func(t *testing.T) {
			m := manifest{
				Image: "registry.example.org/holdfast:1", Zone: "a", Binary: "/usr/bin/holdfast", Config: "/etc/holdfast/balance.yaml",
				Distribution: c.distribution, Backends: []string{"10.0.0.1:6443", "[fd00::2]:6443"},
			}
			var out bytes.Buffer
			if err := m.write(&out, c.kind); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "manifests", c.kind+"-"+c.distribution+".txt")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Bytes(), want) {
				t.Errorf("differs from %s; run with -update and look at the diff", golden)
			}
			if c.kind != "systemd" {
				wellFormed(t, out.Bytes())
			}
		})
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

func TestManifestRefusesWhatItCannotQuote(t *testing.T) {
	m := manifest{Distribution: "kubeadm", Backends: []string{"10.0.0.1:6443\n- evil"}}
	if err := m.write(&bytes.Buffer{}, "static-pod"); err == nil || !strings.Contains(err.Error(), "--backend") {
		t.Errorf("got %v", err)
	}
	m = manifest{Distribution: "nixos", Backends: []string{"10.0.0.1:6443"}}
	if err := m.write(&bytes.Buffer{}, "static-pod"); err == nil || !strings.Contains(err.Error(), "--distribution") {
		t.Errorf("got %v", err)
	}
	m = manifest{Distribution: "kubeadm"}
	if err := m.write(&bytes.Buffer{}, "daemonset"); err == nil || !strings.Contains(err.Error(), "--backend") {
		t.Errorf("got %v", err)
	}
}

package zonal

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestManifest(t *testing.T) {
	for name, change := range map[string]func(*manifest){
		"cluster": func(*manifest) {},
		"namespaces": func(m *manifest) {
			m.Namespaces, m.Namespace, m.Datapath = []string{"shop", "web"}, "holdfast", "cilium-1.19"
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := defaultManifest()
			change(&m)
			var out bytes.Buffer
			if err := m.write(&out); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "manifests", name+".txt")
			if *update {
				if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
					t.Fatal(err)
				}
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
			flagsParse(t, out.Bytes())
		})
	}
}

// flagsParse reads every document and the flags of the Deployment.
func flagsParse(t *testing.T, text []byte) {
	t.Helper()
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var doc struct {
			Kind string `yaml:"kind"`
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct {
							Args []string `yaml:"args"`
						} `yaml:"containers"`
					} `yaml:"spec"`
				} `yaml:"template"`
			} `yaml:"spec"`
		}
		switch err := dec.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			t.Fatal(err)
		}
		if doc.Kind != "Deployment" {
			continue
		}
		args := doc.Spec.Template.Spec.Containers[0].Args
		if err := runCommand().Flags().Parse(args[2:]); err != nil || args[0] != "zonal" || args[1] != "run" {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestManifestRefuses(t *testing.T) {
	for want, change := range map[string]func(*manifest){
		`--image "a b"`:               func(m *manifest) { m.Image = "a b" },
		`--install-namespace "x\ny"`:  func(m *manifest) { m.Namespace = "x\ny" },
		`--namespace "*"`:             func(m *manifest) { m.Namespaces = []string{"*"} },
		`--datapath: "a"; write auto`: func(m *manifest) { m.Datapath = "a" },
	} {
		m := defaultManifest()
		change(&m)
		if err := m.write(io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

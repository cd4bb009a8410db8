package leader

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestManifests(t *testing.T) {
	for _, kind := range []string{"static-pod", "sidecar-policy", "systemd"} {
		var b bytes.Buffer
		m := defaultManifest()
		m.Zone = "a"
		if err := m.write(&b, kind); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", "manifests", kind+".golden")
		if *update {
			if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), want) {
			t.Errorf("%s differs from %s; run with -update and look at the difference", kind, golden)
		}
		if kind != "systemd" {
			wellFormed(t, kind, b.String())
		}
	}
}

func wellFormed(t *testing.T, kind, text string) {
	t.Helper()
	dec := yaml.NewDecoder(strings.NewReader(text))
	for n := 0; ; n++ {
		var doc map[string]any
		if err := dec.Decode(&doc); err != nil {
			if n == 0 {
				t.Errorf("%s: %v", kind, err)
			}
			return
		}
		if doc["kind"] == nil || doc["apiVersion"] == nil {
			t.Errorf("%s, document %d: no kind", kind, n)
		}
	}
}

func TestManifestsTakeNoCode(t *testing.T) {
	for _, hostile := range []string{"x\n  privileged: true", `x", command: ["sh`, "x %{y}", "$(id)", "a b"} {
		m := defaultManifest()
		m.Image = hostile
		if err := m.write(&bytes.Buffer{}, "static-pod"); err == nil || !strings.Contains(err.Error(), "--image") {
			t.Errorf("%q: %v", hostile, err)
		}
	}
	m := defaultManifest()
	if err := m.write(&bytes.Buffer{}, "helm"); err == nil || !strings.Contains(err.Error(), "static-pod") {
		t.Errorf("unknown kind: %v", err)
	}
	m.Label = "etcd"
	if err := m.write(&bytes.Buffer{}, "sidecar-policy"); err == nil || !strings.Contains(err.Error(), "key=value") {
		t.Errorf("label: %v", err)
	}
}

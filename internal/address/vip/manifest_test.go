package vip

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestManifests(t *testing.T) {
	m := manifest{
		Image: "registry.example.org/holdfast:1", Binary: "/usr/bin/holdfast", Config: "/etc/holdfast/vip.yaml",
		Label: "node-role.kubernetes.io/control-plane", Mounts: []string{"/etc/kubernetes/pki/ca.crt"},
	}
	for _, kind := range []string{"static-pod", "daemonset", "systemd"} {
		var out bytes.Buffer
		if err := m.write(&out, kind); err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("manifests", kind+".txt"), out.String())
		if kind == "systemd" {
			continue
		}
		var document map[string]any
		if err := yaml.Unmarshal(out.Bytes(), &document); err != nil {
			t.Errorf("%s is no YAML: %v", kind, err)
		}
	}
	services := m
	services.Services = true
	if err := services.write(&bytes.Buffer{}, "daemonset"); err == nil || !strings.Contains(err.Error(), "--pool") {
		t.Errorf("Services without addresses: %v", err)
	}
	services.Pool = []string{"192.0.2.200-192.0.2.220", "2001:db8::1:1/120"}
	if err := services.write(&bytes.Buffer{}, "daemonset"); err == nil || !strings.Contains(err.Error(), "--pool") {
		t.Errorf("a network with bits behind its length: %v", err)
	}
	services.Pool[1] = "2001:db8::1:0/120"
	for kind, file := range map[string]string{"rbac": "rbac.txt", "daemonset": "daemonset-services.txt"} {
		var out bytes.Buffer
		if err := services.write(&out, kind); err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("manifests", file), out.String())
	}
	m.Config = "vip.yaml"
	if err := m.write(&bytes.Buffer{}, "static-pod"); err == nil || !strings.Contains(err.Error(), "absolute path") {
		t.Errorf("a relative path: %v", err)
	}
	m.Image = "x y"
	if err := m.write(&bytes.Buffer{}, "static-pod"); err == nil || !strings.Contains(err.Error(), "--image") {
		t.Errorf("a blank: %v", err)
	}
}

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s; run with -update and look at the diff:\n%s", path, got)
	}
}

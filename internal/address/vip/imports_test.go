package vip

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/address/vip/imports"
)

// What an import prints is a file that we load. Of a manifest of kube-vip the
// machines and the passwords are missing, as notes beside it say; nothing else
// may be.
func TestImportsLoad(t *testing.T) {
	password := filepath.Join(t.TempDir(), "bgp.password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("imports/testdata/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		notes, yaml, ok := strings.Cut(string(data), "stdout:\n")
		if !ok {
			t.Fatalf("%s has no YAML", file)
		}
		if strings.Contains(notes, "lease.peers") {
			yaml = strings.Replace(yaml, "peers: []", `peers: [{name: a, address: "192.0.2.1:9390"}, {name: b, address: "192.0.2.2:9390"}]`+"\n      self: a", 1)
		}
		yaml = strings.ReplaceAll(yaml, "/etc/holdfast/bgp.password", password)
		if err := loads([]byte(yaml)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// What does not load is printed all the same, and the reason beside it.
func TestImportSaysWhatIsToBeMended(t *testing.T) {
	cmd := imports.Command(loads)
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs([]string{"imports/testdata/arp.kube-vip.yaml"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(errs.String(), "to be mended before it can be run: group api: lease.peers:") || out.Len() == 0 {
		t.Errorf("stderr %q\nstdout %q", errs.String(), out.String())
	}
}

package check

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
)

const reference = "../../../docs/reference"

// Every document that a command prints is valid by its schema, whatever the command
// found, and the schemas see a fault.
func TestDocumentsFitTheirSchemas(t *testing.T) {
	for _, tc := range []struct{ schema, args string }{
		{"check", "--json testdata/sane/kubeadm"},
		{"check", "--json " + broken},
		{"check", "clients --json --target testdata/sane/kubeadm " + examples + "/HF-CLI-001/broken/kubeconfigs/pipeline.yaml"},
		{"check-timers", "timers --json testdata/sane/keepalived"},
		{"check-timers", "timers --json " + examples + "/HF-VIP-010/broken"},
		{"check-timers", "timers --json " + t.TempDir()},
		{"check-maintenance", "maintenance next --json testdata/sane/kubeadm"},
		{"check-maintenance", "maintenance next --json --done a1 testdata/sane/kubeadm"},
		{"check-maintenance", "maintenance next --json " + t.TempDir()},
		{"check-lab-demo", "--lab-demo --json"},
	} {
		fits(t, tc.schema, tc.args)
	}
}

// Each outcome of a path fits, and so does what has no certificate.
func TestPathFitsItsSchema(t *testing.T) {
	ready := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	ours := httptest.NewTLSServer(ready)
	defer ours.Close()
	plain := httptest.NewServer(ready)
	defer plain.Close()
	port := ours.URL[strings.LastIndex(ours.URL, ":"):]
	for _, url := range []string{ours.URL, "https://127.0.0.2" + port, "https://127.0.0.1:1", strings.Replace(plain.URL, "http:", "https:", 1)} {
		fits(t, "check-path", "path --json "+url)
	}
}

// fits runs a command and holds what it printed against a schema of docs/reference.
func fits(t *testing.T, schema, args string) {
	t.Helper()
	out, err := command(strings.Fields(args)...)
	if out == "" {
		t.Errorf("check %s: code %d, %v: printed nothing", args, exit.Code(err), err)
		return
	}
	file := filepath.Join(reference, schema+".schema.json")
	if err := validate(t, file, []byte(out)); err != nil {
		t.Errorf("check %s: %v\n%s", args, err, out)
	}
	for _, foul := range [][2]string{{`"version": `, `"versions": `}, {"{\n", "{\n  \"unheard\": 1,\n"}} {
		if validate(t, file, bytes.Replace([]byte(out), []byte(foul[0]), []byte(foul[1]), 1)) == nil {
			t.Errorf("%s accepts %q for %q", file, foul[1], foul[0])
		}
	}
}

func validate(t *testing.T, schema string, data []byte) error {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(schema)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return s.Validate(v)
}

// Every schema is named where people look for it.
func TestGuideNamesEverySchema(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/guide/check.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(reference + "/check*.schema.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		if !strings.Contains(string(guide), "(../reference/"+filepath.Base(file)+")") {
			t.Errorf("docs/guide/check.md has no link to %s", filepath.Base(file))
		}
	}
}

package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// golden compares got with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from what is rendered now; look at the change, then run the test with -update", file)
	}
}

func TestTimelineGolden(t *testing.T) {
	pictures := map[string]Picture{
		"timeline-narrow.svg": {Width: 400},
		"timeline-b.svg":      {Variant: "leader in b"},
	}
	for name, p := range pictures {
		var buf bytes.Buffer
		if err := Timeline(&buf, demo(), p); err != nil {
			t.Fatal(err)
		}
		golden(t, name, buf.Bytes())
	}
}

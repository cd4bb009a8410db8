package haproxy_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/access/balance"
	"github.com/holdfast-ha/holdfast/internal/base/config"
)

// What Import writes is read by the balancer's own strict reader.
func TestGoldenSettingsAreSettings(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, path := range files {
		in, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var s balance.Settings
		if err := config.Decode(in, path, &s); err != nil || len(s.Frontends) == 0 {
			t.Errorf("%s: %v", path, err)
		}
		in.Close()
	}
}

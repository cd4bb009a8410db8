package leader

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/config"
)

// plain are settings that need no certificates.
func plainSettings() Settings {
	s := defaultSettings()
	s.Etcd.Endpoints = []string{"http://127.0.0.1:2379"}
	return s
}

func TestSettingsNameTheFieldAndTheRemedy(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Settings)
		want   []string
	}{
		"two endpoints": {func(s *Settings) { s.Etcd.Endpoints = append(s.Etcd.Endpoints, "http://10.0.0.2:2379") }, []string{"etcd.endpoints", "own member"}},
		"no scheme":     {func(s *Settings) { s.Etcd.Endpoints = []string{"http://"} }, []string{"etcd.endpoints", "https://HOST:2379"}},
		"prefix":        {func(s *Settings) { s.Prefix = "/registry/x" }, []string{"prefix", "outside /registry"}},
		"zone twice":    {func(s *Settings) { s.Zones = []string{"a", "b", "a"} }, []string{"zones", `"a"`, "once"}},
		"profile":       {func(s *Settings) { s.Profile = "fast" }, []string{"profile", `"fast"`, "default or seed"}},
		"settle":        {func(s *Settings) { s.Settle = -1 }, []string{"settle", "-1ns"}},
		"long settle":   {func(s *Settings) { s.Settle = 1000 * time.Hour }, []string{"settle", "1000h", "1h"}},
		"long return":   {func(s *Settings) { s.ReturnAfter = 10000 * time.Hour }, []string{"returnAfter", "10000h"}},
		"no host":       {func(s *Settings) { s.Etcd.Endpoints = []string{"http://:2379"} }, []string{"etcd.endpoints", "lacks a host"}},
		"no port":       {func(s *Settings) { s.Etcd.Endpoints = []string{"http://a"} }, []string{"etcd.endpoints", "1 to 65535"}},
		"wild port":     {func(s *Settings) { s.Etcd.Endpoints = []string{"http://a:99999"} }, []string{"etcd.endpoints", "1 to 65535"}},
		"zone":          {func(s *Settings) { s.Zone = "a\n" }, []string{"zone", `"a\n"`, "printable"}},
		"client only":   {func(s *Settings) { s.Etcd.Endpoints, s.Etcd.CA = []string{"https://a:2379"}, "ca.crt" }, []string{"etcd.peer.cert: not set"}},
		"pace":          {func(s *Settings) { s.Pace = 1000 }, []string{"pace", "1 to 100"}},
		"mesh address":  {func(s *Settings) { s.Mesh.Listen = "2384" }, []string{"mesh.listen", ":PORT"}},
		"mesh port":     {func(s *Settings) { s.Mesh.Port = 70000 }, []string{"mesh.port", "65535"}},
		"half account":  {func(s *Settings) { s.Etcd.Username = "root" }, []string{"etcd.passwordFile", "both or neither"}},
	} {
		s := plainSettings()
		tc.change(&s)
		err := s.complete(t.TempDir())
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		for _, word := range tc.want {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q does not say %q", name, err, word)
			}
		}
	}
	s := plainSettings()
	if err := s.complete(t.TempDir()); err != nil {
		t.Errorf("sound settings refused: %v", err)
	}
}

func TestSettingsWithoutCertificatesSayWhereToNameThem(t *testing.T) {
	s := defaultSettings()
	err := s.complete(t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "etcd.cert") || !strings.Contains(err.Error(), "etcd.peer") {
		t.Errorf("error %v", err)
	}
}

// The full file of the guide is what the program reads.
func TestGuideShowsEverySetting(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "guide", "leader.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(guide), "```yaml\n")
	if !ok {
		t.Fatal("the guide has no settings file")
	}
	file, _, _ := strings.Cut(rest, "```")
	s := defaultSettings()
	if err := config.Decode(strings.NewReader(file), "leader.md", &s); err != nil {
		t.Fatal(err)
	}
	want := defaultSettings()
	if s.Prefix != want.Prefix || s.ReturnAfter != want.ReturnAfter || s.Mesh != want.Mesh ||
		s.Telemetry != want.Telemetry || s.Profile != want.Profile || s.Log != want.Log {
		t.Errorf("the guide's defaults are not the program's: %+v", s)
	}
}

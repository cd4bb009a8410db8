package probe

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/base/config"
)

func TestSampleConfig(t *testing.T) {
	cfg, err := LoadConfig("config.sample.yaml")
	if err != nil {
		t.Fatal(err)
	}
	paths, err := cfg.Paths()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range paths {
		names = append(names, p.Name)
	}
	want := []string{
		"b/etcd/put/new", "b/etcd/put/reused", "b/etcd/get/new", "b/etcd/get/reused",
		"b/etcd/serializable/new", "b/etcd/serializable/reused", "b/etcd/watch/stream",
		"b/apiserver/http/new", "b/apiserver/http/reused", "b/lease/http/new", "b/lease/http/reused", "b/events/http/stream",
		"b/registry/connect/new", "b/registry/connect/stream", "b/echo/echo/new", "b/echo/echo/reused",
		"dev/etcd/get/new", "dev/etcd/get/reused", "router/api/route/new",
	}
	if !slices.Equal(names, want) {
		t.Errorf("paths %q", names)
	}
	if p := paths[0]; p.Timeout != 2*time.Second || p.Interval != 100*time.Millisecond || !p.Secure ||
		p.Key != "/holdfast/probe/b/etcd/put/new" || p.Labels["site"] != "b" || p.TLS.Cert == "" {
		t.Errorf("first path %+v", p)
	}
	if p := paths[7]; p.TLS.Cert != "" || p.Interval != 200*time.Millisecond {
		t.Errorf("apiserver %+v", p)
	}
}

// Whoever writes a Config in Go reads the same Config back from YAML.
func TestConfigSurvivesYAML(t *testing.T) {
	want := &Config{
		Interval: 50 * time.Millisecond, Control: Control{Name: "b/control"}, TLS: TLS{CA: "ca.crt", ServerName: "x"},
		Targets: []Target{{Name: "b/etcd", URL: "etcd://10.0.0.1:2379", Kinds: []Kind{KindPut}, Modes: []Mode{ModeNew},
			Timeout: 2 * time.Second, TLS: &TLS{CA: "other.crt"}, Labels: map[string]string{"site": "b"}}},
	}
	data, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "probe.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := LoadConfig(file)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v from\n%s", got, err, data)
	}
}

func TestDefaults(t *testing.T) {
	for _, c := range []struct {
		url     string
		path    string
		timeout time.Duration
	}{
		{"https://h/readyz", "t/http/new", time.Second},
		{"tcp://h:1", "t/connect/new", time.Second},
		{"etcd://h:1", "t/get/new", 2 * time.Second},
		{"etcd://h:1?kind=watch", "t/watch/stream", 2 * time.Second},
		{"etcd+insecure://[::1]:1?kind=put&kind=get", "t/put/new", 2 * time.Second},
	} {
		cfg := &Config{Targets: []Target{{Name: "t", URL: c.url}}}
		paths, err := cfg.Paths()
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if p := paths[0]; p.Name != c.path || p.Timeout != c.timeout || p.Interval != DefaultInterval || p.Slow != time.Second {
			t.Errorf("%s: %+v", c.url, p)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for _, c := range []struct{ yaml, want string }{
		{"targets: []\n", "targets: none given; name at least one target"},
		{"targets: [{name: a, url: 'http://h', mode: new}]\n", `probe.yaml:1: field "targets[0].mode": unknown; did you mean "modes"?`},
		{"interval: 100\ntargets: []\n", `probe.yaml:1: field "interval": value "100" is not a duration; write 100s`},
		{"targets: [{url: 'http://h'}]\n", "targets[0].name: missing"},
		{"targets: [{name: a, url: 'http://h'}, {name: a, url: 'http://i'}]\n", `targets[1].name: "a" is also the name of targets[0]`},
		{"targets: [{name: a, url: h}]\n", `targets[0] (a).url: "h" is no URL`},
		{"targets: [{name: a, url: 'route://h'}]\n", `url: "route://h" is no address alone; write route://203.0.113.10`},
		{"targets: [{name: a, url: 'route://192.0.2.1:80'}]\n", `"route://192.0.2.1:80" is no address alone`},
		{"targets: [{name: a, url: 'route://192.0.2.0/24'}]\n", `"route://192.0.2.0/24" is no address alone`},
		{"targets: [{name: a, url: 'route://2001:db8::10'}]\n", `"route://2001:db8::10" is no address alone; write route://203.0.113.10 or route://[2001:db8::10]`},
		{"targets: [{name: a, url: 'route://192.0.2.1', modes: [reused]}]\n", `modes: "reused" is unknown to kind route; it knows [new]`},
		{"targets: [{name: a, url: 'sctp://h:1'}]\n", `scheme "sctp" is unknown; use https, http, tcp, udp, etcd, etcd+insecure or route`},
		{"targets: [{name: a, url: 'udp://h:1', modes: [reused]}]\n", `modes: "reused" is unknown to kind datagram; it knows [new]`},
		{"targets: [{name: a, url: 'etcd://h'}]\n", `"etcd://h" has no port; write etcd://h:PORT`},
		{"targets: [{name: a, url: 'etcd://h:1?kind=del'}]\n", `kinds: "del" is unknown to etcd; use one of [get put serializable watch write]`},
		{"targets: [{name: a, url: 'etcd://h:1?key=x'}]\n", `parameter "key" is unknown`},
		{"targets: [{name: a, url: 'etcd://h:1?kind=put', kinds: [get]}]\n", "kinds: given in the URL too"},
		{"targets: [{name: a, url: 'etcd://h:1?kind=put', modes: [stream]}]\n", `modes: "stream" is unknown to kind put; it knows [new reused]`},
		{"targets: [{name: a, url: 'etcd://h:1?kind=put,watch', modes: [new]}]\n", `modes: none of [new] is known to kind "watch"; it knows [stream]`},
		{"targets: [{name: a, url: 'http://h', modes: [old]}]\n", `modes: "old" is unknown`},
		{"targets: [{name: a, url: 'http://h', modes: [new, new]}]\n", `two paths are named "a/http/new"`},
		{"targets: [{name: a, url: 'http://h', expect: 2xx}]\n", `expect: "2xx" is no HTTP code`},
		{"targets: [{name: a, url: 'http://h', request: {method: 'get it'}}]\n", `request.method: "get it" is no method; write one such as GET, PUT or PATCH`},
		{"targets: [{name: a, url: 'tcp://h:1', request: {method: GET}}]\n", `request: kind "connect" sends none; remove it`},
		{"targets: [{name: a, url: 'http://h', interval: 1ms}]\n", "timeout: 1s at an interval of 1ms lets 1001 samples hang at once"},
		{"targets: [{name: a, url: 'http://h', timeout: 1us}]\n", "timeout: 1µs is under 1ms"},
		{"interval: -1s\ntargets: [{name: a, url: 'http://h'}]\n", "negative"},
		{"tls: {cert: c}\ntargets: [{name: a, url: 'http://h'}]\n", `tls: cert "c" and key ""; give both or neither`},
		{"tls: {ca: c, insecureSkipVerify: true}\ntargets: [{name: a, url: 'http://h'}]\n", "remove one"},
		{"prefix: x\ntargets: [{name: a, url: 'http://h'}]\n", `prefix: "x" does not start with a slash; write "/x"`},
	} {
		var cfg Config
		err := config.Decode(strings.NewReader(c.yaml), "probe.yaml", &cfg)
		if err == nil {
			err = cfg.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\tgot  %v\n\twant %s", c.yaml, err, c.want)
		}
	}
}

func TestMissingFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.crt")
	if err := os.WriteFile(empty, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tls  TLS
		want string
	}{
		{TLS{CA: filepath.Join(dir, "none")}, "prepare t/get/new: read CA: open "},
		{TLS{CA: empty}, "holds no PEM certificate"},
		{TLS{Cert: empty, Key: empty}, "read client certificate: "},
	} {
		_, err := New(&Config{TLS: c.tls, Targets: []Target{{Name: "t", URL: "etcd://127.0.0.1:1"}}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// FuzzConfig checks that no file panics, that each mistake is one line, and
// that every path of a good file can be built and bounded.
func FuzzConfig(f *testing.F) {
	sample, err := os.ReadFile("config.sample.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(sample))
	for _, s := range []string{
		"", "targets: [{name: a, url: 'etcd://h:1?kind=put,,get'}]", "targets: [{name: a, url: 'http://[::1]:x'}]",
		"targets: [{name: a, url: 'http://h', expect: '1-2-3,'}]", "interval: 1ns\ntargets: [{name: a, url: 'tcp://h:1'}]",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var cfg Config
		if config.Decode(strings.NewReader(in), "f.yaml", &cfg) != nil {
			return
		}
		paths, err := cfg.Paths()
		if err != nil {
			return
		}
		for _, p := range paths {
			if n := p.limit(); n < 1 || n > maxInFlight {
				t.Fatalf("%s: %d in flight", p.Name, n)
			}
		}
	})
}

package slices

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/base/config"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// goodSettings need nothing of the machine.
func goodSettings() Settings {
	s := defaultSettings()
	s.Node, s.Apiserver.CA = "cp1", "/ca"
	return s
}

// parse is what a person gets for a file, with credentials looked for nowhere.
func parse(t *testing.T, text string) (Settings, error) {
	t.Helper()
	s := goodSettings()
	if err := config.Decode(strings.NewReader(text), "f.yaml", &s); err != nil {
		return s, err
	}
	return s, s.complete(t.TempDir())
}

func TestSampleParses(t *testing.T) {
	s, err := parse(t, Sample)
	if err != nil {
		t.Fatal(err)
	}
	if s.Lapse != 30*time.Second || s.Addresses[1] != "fd00::1" || s.Datapath != "auto" {
		t.Errorf("read as %+v", s)
	}
}

// Every field of the settings stands in the sample.
func TestSampleIsWhole(t *testing.T) {
	var doc any
	if err := yaml.Unmarshal([]byte(Sample), &doc); err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	keys(doc, have)
	for _, k := range tags(reflect.TypeFor[Settings]()) {
		if !have[k] {
			t.Errorf("%s: not in sample.yaml", k)
		}
	}
}

func keys(v any, into map[string]bool) {
	if m, ok := v.(map[string]any); ok {
		for k, sub := range m {
			into[k] = true
			keys(sub, into)
		}
	}
}

func tags(typ reflect.Type) []string {
	if typ.Kind() != reflect.Struct || !strings.Contains(typ.PkgPath(), "holdfast") {
		return nil
	}
	var all []string
	for f := range typ.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "" {
			all = append(all, name)
		}
		all = append(all, tags(f.Type)...)
	}
	return all
}

// A mistake is told in one line that names the field, the value and the remedy.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"unknown key", "witness: [c]\n", `f.yaml:1: field "witness": unknown; did you mean "witnesses"?`},
		{"a node that cannot be", "node: Node_1\n", `node: "Node_1" cannot be the name of a Node; write it as kubectl get nodes shows it`},
		{"an address that is none", "addresses: [api]\n", `addresses[0]: "api" is not an IP address`},
		{"a loopback address", "addresses: [127.0.0.1]\n", `addresses[0]: 127.0.0.1 is none that other nodes reach`},
		{"two of a family", "addresses: [10.0.0.1, 10.0.0.2]\n", `addresses: 10.0.0.1 and 10.0.0.2 are of one family; keep one`},
		{"no servers", "api: {servers: []}\n", `api.servers: none; write at least the balancer of this node`},
		{"a server without scheme", "api: {servers: [\"10.0.0.1:6443\"]}\n", `api.servers[0]: server "10.0.0.1:6443": not a URL; write https://HOST:PORT`},
		{"a context of nothing", "api: {context: x}\n", `api.context: "x" without api.kubeconfig; set both, or leave it out`},
		{"a lapse too short", "lapse: 22s\n", `lapse: 22s; write a time from 25s (two renewals of a Lease, and one that is late) to 1h`},
		{"a neighbour's apiserver", "apiserver: {url: \"https://192.0.2.7:6443\"}\n", `apiserver.url: "https://192.0.2.7:6443" is not of this machine, and an agent judges its own apiserver only; write https://127.0.0.1:PORT`},
		{"a name of anybody's", "apiserver: {url: \"https://api.example.org:6443\"}\n", `apiserver.url: "https://api.example.org:6443" is not of this machine`},
		{"a zone that cannot be", "zone: \"a b\"\n", `zone: "a b" cannot be the value of a label`},
		{"a witness twice", "witnesses: [c, c]\n", `witnesses[1]: "c" is no zone, or there twice`},
		{"a datapath", "datapath: ebpf\n", `datapath: "ebpf"; write auto, kube-proxy, cilium or cilium-1.19`},
		{"telemetry", "telemetry: {listen: here}\n", `telemetry.listen: "here"; write HOST:PORT, :PORT, or "" for none`},
		{"the own apiserver without TLS", "apiserver: {url: \"http://127.0.0.1:8080\"}\n", `apiserver.url: "http://127.0.0.1:8080"; write https://127.0.0.1:PORT`},
		{"half a certificate", "apiserver: {cert: /c}\n", "apiserver.cert, apiserver.key: set both or neither"},
		{"anonymous with a token", "apiserver: {anonymous: true, tokenFile: /t}\n", "apiserver.anonymous: true beside cert or tokenFile; leave one of them out"},
		{"a timeout beyond the period", "apiserver: {timeout: 3s}\n", "apiserver.timeout: 3s is longer than the period of 1s"},
		{"no credentials at all", "apiserver: {ca: \"\"}\n", "apiserver.ca: not set, and neither a pod's service account nor the kubelet's certificate found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(t, c.in)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// The own apiserver may listen on an address of the node alone.
func TestOwnApiserver(t *testing.T) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	hosts := []string{"localhost", "127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"}
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			hosts = append(hosts, prefix.Addr().String())
		}
	}
	for _, host := range hosts {
		a := ApiserverSettings{URL: "https://" + net.JoinHostPort(host, "6443")}
		if _, err := a.address(); err != nil {
			t.Error(err)
		}
	}
}

// In a pod the service account asks the own apiserver, unless somebody else is named.
func TestCredentialsOfThePod(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, kubeapi.ServiceAccountDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*Settings)
		token  string
		ca     string
	}{
		{"nothing named", func(s *Settings) { s.Apiserver.CA = "" }, filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")},
		{"anonymous", func(s *Settings) { s.Apiserver.CA, s.Apiserver.Anonymous = "", true }, "", filepath.Join(dir, "ca.crt")},
		{"an own CA", func(s *Settings) { s.Apiserver.CA = "/own" }, filepath.Join(dir, "token"), "/own"},
		{"a kubeconfig", func(s *Settings) { s.Apiserver.CA, s.API.Kubeconfig = "/own", "/kubeconfig" }, "", "/own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := goodSettings()
			c.change(&s)
			if err := s.complete(root); err != nil {
				t.Fatal(err)
			}
			if s.Apiserver.TokenFile != c.token || s.Apiserver.CA != c.ca {
				t.Errorf("token %q, CA %q; want %q, %q", s.Apiserver.TokenFile, s.Apiserver.CA, c.token, c.ca)
			}
		})
	}
}

// FuzzSettings checks that no file panics, and that a refusal is one line.
func FuzzSettings(f *testing.F) {
	f.Add(Sample)
	f.Add("witnesses: [c]\napi: {servers: [https://127.0.0.1:7445]}\naddresses: ['::ffff:10.0.0.1']\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := parse(t, text)
		if err != nil && strings.ContainsAny(strings.TrimSpace(err.Error()), "\n\r") {
			t.Errorf("more than one line: %q", err)
		}
	})
}

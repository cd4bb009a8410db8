package balance

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-ha/holdfast/internal/base/config"
)

// parse is what a person gets for a file, with credentials looked for nowhere.
func parse(t *testing.T, text string) (Settings, error) {
	t.Helper()
	s := defaultSettings()
	if err := config.Decode(strings.NewReader(text), "f.yaml", &s); err != nil {
		return s, err
	}
	return s, s.complete(t.TempDir())
}

func TestSampleParses(t *testing.T) {
	if _, err := parse(t, Sample); err != nil {
		t.Fatal(err)
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
	for _, k := range tags(reflect.TypeFor[Settings](), map[reflect.Type]bool{}) {
		if !have[k] {
			t.Errorf("%s: not in sample.yaml", k)
		}
	}
}

func keys(v any, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, sub := range v {
			into[k] = true
			keys(sub, into)
		}
	case []any:
		for _, sub := range v {
			keys(sub, into)
		}
	}
}

func tags(typ reflect.Type, seen map[reflect.Type]bool) []string {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || seen[typ] || !strings.Contains(typ.PkgPath(), "holdfast") {
		return nil
	}
	seen[typ] = true
	var all []string
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("yaml"), ",")
		if name != "" {
			all = append(all, name)
		}
		all = append(all, tags(typ.Field(i).Type, seen)...)
	}
	return all
}

const good = "frontends:\n- backends: {static: [{address: \"10.0.0.1:6443\"}]}\n  check: {ca: /ca}\n"

func TestDefaults(t *testing.T) {
	s, err := parse(t, good)
	if err != nil {
		t.Fatal(err)
	}
	f := s.Frontends[0]
	if f.Name != "kube-apiserver" || f.Listen[0] != "127.0.0.1:7445" || f.Check.Kind != "https" || f.Check.Path != "/readyz" ||
		f.Check.Period != time.Second || f.OnFail != Reset || f.OnShutdown != Drain {
		t.Errorf("got %+v", f)
	}
}

func TestProfileAnchorsResetsNothing(t *testing.T) {
	s, err := parse(t, "profile: anchors\n"+good[:strings.Index(good, "  check")])
	if err != nil {
		t.Fatal(err)
	}
	if f := s.Frontends[0]; f.Check.Kind != "tcp" || f.OnFail != Keep || f.OnRemove != Keep || f.Check.Period != 20*time.Second {
		t.Errorf("got %+v", f)
	}
}

// A mistake is told in one line that names the field, the value and the remedy.
func TestMistakes(t *testing.T) {
	backends := "  backends: {static: [{address: \"10.0.0.1:6443\"}]}\n"
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", "frontends: none; write at least one with its backends, or give --backend HOST:PORT"},
		{"unknown key", "frontends:\n- listn: [x]\n", `f.yaml:2: field "frontends[0].listn": unknown; did you mean "listen"?`},
		{"no backends", "frontends:\n- check: {ca: /ca}\n", "frontends[0] (kube-apiserver): backends.static: nothing here and no other source; write - address: HOST:PORT, or one of endpointSlices, dns, file"},
		{"a name for an address", "frontends:\n- check: {ca: /ca}\n  backends: {static: [{address: \"api:6443\"}]}\n", `frontends[0] (kube-apiserver): backends.static[0]: address "api:6443": a name, not an IP address; write the address, or look the name up as a dns source`},
		{"twice", "frontends:\n- check: {ca: /ca}\n  backends: {static: [{address: \"10.0.0.1:1\"}, {address: \"10.0.0.1:1\"}]}\n", `frontends[0] (kube-apiserver): backends.static[1].address: "10.0.0.1:1" is there twice; keep one`},
		{"two of a name", good + "- backends: {static: [{address: \"10.0.0.1:6443\"}]}\n  listen: [\":1\"]\n  check: {ca: /ca}\n", `frontends: two are named "kube-apiserver"; give each a name of its own`},
		{"overlap", good + "- name: b\n  listen: [\":7445\"]\n" + backends + "  check: {ca: /ca}\n", `frontends: :7445 (of b) and 127.0.0.1:7445 (of kube-apiserver) overlap; give each a port of its own`},
		{"no ca", "frontends:\n-" + backends[1:], "frontends[0] (kube-apiserver): check.ca: not set, and no kubelet credentials found below "},
		{"half a certificate", "frontends:\n- check: {ca: /ca, cert: /c}\n" + backends, "frontends[0] (kube-apiserver): check.cert, key: set both or neither"},
		{"policy", good + "  policy: fastest\n", `frontends[0] (kube-apiserver): policy: "fastest"; write leastconn, roundrobin or source`},
		{"cause", good + "  onFail: kill\n", `frontends[0] (kube-apiserver): onFail: "kill"; write reset, drain or keep`},
		{"listen", good + "  listen: [\"api:7445\"]\n", `frontends[0] (kube-apiserver): listen: "api:7445": "api" is not an IP address; names are not looked up here`},
		{"profile", "profile: quick\n" + good, `profile: "quick"; write default, seed or anchors`},
		{"proxyFrom alone", good + "  proxyFrom: [10.0.0.0/8]\n", "frontends[0] (kube-apiserver): proxyFrom: set without acceptProxy; set acceptProxy: true, or leave both out"},
		{"timeout beyond period", "frontends:\n- check: {ca: /ca, timeout: 3s}\n" + backends, "frontends[0] (kube-apiserver): check.timeout: 3s is longer than the period of 1s; give a timeout of at most the period"},
		{"a loop", "frontends:\n- check: {ca: /ca}\n  listen: [\":7445\"]\n  backends: {static: [{address: \"127.0.0.1:7445\"}]}\n", "frontend kube-apiserver: backends.static[0]: 127.0.0.1:7445 is where frontend kube-apiserver listens: a loop; name the apiserver's own address"},
		{"slices alone", "frontends:\n- check: {ca: /ca}\n  backends: {endpointSlices: {}}\n", "frontends[0] (kube-apiserver): backends.endpointSlices: alone it finds nobody to ask; name at least one apiserver under static, dns or file as well"},
		{"socket without name", "frontends:\n- check: {ca: /ca}\n  backends: {static: [{address: \"unix:/x\"}]}\n", "frontends[0] (kube-apiserver): backends.static[0]: unix:/x has no name that a certificate could be valid for; set check.serverName"},
		{"anonymous with a certificate", "frontends:\n- check: {ca: /ca, cert: /c, key: /k, anonymous: true}\n" + backends, "frontends[0] (kube-apiserver): check.anonymous: true beside cert or tokenFile; leave one of them out"},
		{"telemetry", "telemetry: {listen: here}\n" + good, `telemetry.listen: "here"; write HOST:PORT, :PORT, or "" for none`},
		{"negative time", good + "  spread: -1s\n", "frontends[0] (kube-apiserver): spread: -1s; write a time up to 1m0s, or 0s for the default"},
		{"a name like a route's", good + "  name: a/1\n", `frontends[0].name: "a/1"; leave out slashes, which stand before routes`},
		{"route without names", good + "  routes: [{backends: {file: /x}, check: {ca: /ca}}]\n", "frontends[0] (kube-apiserver): routes[0].names: none; write the server names of this route"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(t, c.in)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// FuzzSettings checks that no file panics, and that a refusal is one line.
func FuzzSettings(f *testing.F) {
	f.Add(Sample)
	f.Add(good)
	f.Add("frontends: [{listen: ['[::1]:1', 'unix:/x'], backends: {dns: [{name: x, port: 1}]}, check: {kind: tcp}}]")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := parse(t, text)
		if err != nil && strings.ContainsAny(strings.TrimSpace(err.Error()), "\n\r") {
			t.Errorf("more than one line: %q", err)
		}
	})
}

package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// packed is one entry of an archive made by hand.
type packed struct {
	name, text string
	kind       byte
}

func pack(t testing.TB, files ...packed) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Size: int64(len(f.text)), Mode: 0o600, Typeflag: tar.TypeReg}
		if f.kind != 0 {
			h.Typeflag, h.Linkname, h.Size = f.kind, f.text, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if f.kind == 0 {
			if _, err := w.Write([]byte(f.text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const (
	onePod  = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"n"}}`
	oneNode = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a1"}}`
)

// small limits make the bounds reachable by small inputs.
func small() Limits {
	l := DefaultLimits()
	l.Total, l.Document, l.Object, l.NodeFile, l.Files, l.Nodes, l.Problems = 1<<20, 1<<16, 1<<14, 1<<12, 100, 10_000, 3
	return l
}

// Each hostile bundle is named with its place, makes its facts unknown, and leaves
// the others readable.
func TestHostileBundles(t *testing.T) {
	good := packed{name: "objects/nodes.ndjson", text: oneNode}
	laughs := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		laughs += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 10), ",") + "]\n"
	}
	laughs = "apiVersion: v1\nkind: Pod\n" + laughs
	for _, tc := range []struct {
		name    string
		files   []packed
		problem string // a part of "where: what"
		unknown fact.Kind
	}{
		{"leads out", []packed{good, {name: "../../etc/pods.yaml", text: onePod}}, "../../etc/pods.yaml: leads out", fact.Pods},
		{"absolute", []packed{good, {name: "/etc/pods.yaml", text: onePod}}, "/etc/pods.yaml: leads out", fact.Pods},
		{"backslashes", []packed{good, {name: `..\..\pods.yaml`, text: onePod}}, "leads out", fact.Pods},
		{"link", []packed{good, {name: "objects/pods.yaml", text: "/etc/shadow", kind: tar.TypeSymlink}}, "objects/pods.yaml: neither a file", fact.Pods},
		{"hard link", []packed{good, {name: "objects/pods.yaml", text: "objects/nodes.ndjson", kind: tar.TypeLink}}, "neither a file", fact.Pods},
		{"device", []packed{good, {name: "objects/pods.yaml", kind: tar.TypeChar}}, "neither a file", fact.Pods},
		{"long line", []packed{good, {name: "objects/pods.ndjson", text: "\n" + strings.Repeat("x", 1<<15)}}, "objects/pods.ndjson:2: an object larger", fact.Pods},
		{"large value", []packed{good, {name: "objects/pods.json", text: `{"items":[{"kind":"Pod","x":"` + strings.Repeat("x", 1<<18) + `"}]}`}}, "objects/pods.json:1: an object larger", fact.Pods},
		{"large key", []packed{good, {name: "objects/pods.json", text: `{"` + strings.Repeat("x", 1<<18) + `":1}`}}, "objects/pods.json:1: an object larger", fact.Pods},
		{"many keys", []packed{good, {name: "objects/pods.json", text: `{"a":"` + strings.Repeat("x", 1<<13) + `","b":"` + strings.Repeat("x", 1<<13) + `"}`}}, "an object larger", fact.Pods},
		{"large document", []packed{good, {name: "objects/pods.yaml", text: "a: " + strings.Repeat("x", 1<<17)}}, "objects/pods.yaml: too large", fact.Pods},
		{"cycle", []packed{good, {name: "pods.yaml", text: "apiVersion: v1\nkind: Pod\nmetadata: &m\n  labels: *m\n"}}, "pods.yaml:1: nested too deep", fact.Pods},
		{"aliases", []packed{good, {name: "pods.yaml", text: laughs}}, "pods.yaml:1: aliases expand", fact.Pods},
		{"deep YAML", []packed{good, {name: "pods.yaml", text: "apiVersion: v1\nkind: Pod\nmetadata: " + strings.Repeat("[", 5000)}}, "pods.yaml", fact.Pods},
		{"deep JSON", []packed{good, {name: "pods.json", text: `{"metadata":` + strings.Repeat("[", 12000)}}, "pods.json", fact.Pods},
		{"not YAML", []packed{good, {name: "pods.yaml", text: "apiVersion: v1\nkind: [\n"}}, "pods.yaml:", fact.Pods},
		{"cut JSON", []packed{good, {name: "pods.json", text: `{"kind":"PodList","apiVersion":"v1","items":[` + onePod}}, "pods.json:1: ends in the middle", fact.Pods},
		{"not a pod", []packed{good, {name: "x.json", text: `{"apiVersion":"v1","kind":"Pod","spec":3}`}}, "Pod  (x.json:1): not a Pod", fact.Pods},
		{"newer version", []packed{good, {name: "x.json", text: `{"apiVersion":"discovery.k8s.io/v2","kind":"EndpointSlice"}`}}, "only discovery.k8s.io/v1 is known", fact.EndpointSlices},
		{"other bundle", []packed{good, {name: "bundle.json", text: `{"version":2}`}}, "bundle.json: version 2", fact.Pods},
		{"bundle says so", []packed{good, {name: "bundle.yaml", text: "version: 1\nstates:\n  leases: {state: unknown, why: forbidden}\n"}}, "leases: could not be read: forbidden", fact.Leases},
		{"unknown outcome", []packed{good, {name: "probes.yaml", text: "probes: [{address: a, outcome: fine}]"}}, `outcome "fine"`, fact.Probes},
		{"unknown field", []packed{good, {name: "etcd.yaml", text: "members: [{nam: a}]"}}, `unknown field "nam"`, fact.Etcd},
		{"bad static pod", []packed{good, {name: "nodes/a/files/etc/kubernetes/manifests/x.yaml", text: "kind: Pod\nspec: 3\n"}}, "not a Pod", "files/a/etc/kubernetes/manifests/x.yaml"},
		{"large node file", []packed{good, {name: "nodes/a/files/etc/hosts", text: strings.Repeat("x", 1<<13)}}, "too large for a file of settings", "files/a/etc/hosts"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := Read(bytes.NewReader(pack(t, tc.files...)), "the bundle x", small())
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, p := range f.Problems {
				all = append(all, p.Where+": "+p.What)
			}
			if got := strings.Join(all, "\n"); !strings.Contains(got, tc.problem) || strings.Contains(got, "\n") {
				t.Errorf("problems %q, want one with %q", got, tc.problem)
			}
			if k := f.KnownOf(string(tc.unknown)); k.State != fact.Unknown || k.Why == "" {
				t.Errorf("%s is %s (%s), want unknown", tc.unknown, k.State, k.Why)
			}
			if len(f.Nodes.Items) != 1 {
				t.Errorf("%d nodes, want the one beside it", len(f.Nodes.Items))
			}
		})
	}
}

// What unpacks to more than the limit, and what ends too soon, ends the reading;
// what came before stands, but nothing is known for certain.
func TestBundlesThatEndBadly(t *testing.T) {
	whole := pack(t, packed{name: "objects/nodes.ndjson", text: oneNode}, packed{name: "objects/pods.ndjson", text: strings.Repeat(onePod+"\n", 5000)})
	bomb := pack(t, packed{name: "objects/nodes.ndjson", text: oneNode}, packed{name: "objects/pods.ndjson", text: strings.Repeat("\n", 2<<20)})
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-6] ^= 0xff // gzip's checksum
	many := []packed{{name: "objects/nodes.ndjson", text: oneNode}}
	for range 200 {
		many = append(many, packed{name: "a.txt"})
	}
	for name, tc := range map[string]struct {
		data    []byte
		problem string
	}{
		"bomb":         {bomb, "unpacks to more"},
		"cut":          {whole[:len(whole)*9/10], "ends too soon"},
		"bad checksum": {flipped, "checksum"},
		"many files":   {pack(t, many...), "more files"},
	} {
		f, err := Read(bytes.NewReader(tc.data), "the bundle x", small())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(f.Problems) != 1 || !strings.Contains(f.Problems[0].What, tc.problem) {
			t.Errorf("%s: %+v, want %q", name, f.Problems, tc.problem)
		}
		if f.Nodes.State != fact.Unknown || f.Leases.State != fact.Unknown {
			t.Errorf("%s: nodes %s, leases %s, want unknown", name, f.Nodes.State, f.Leases.State)
		}
	}
	for name, data := range map[string][]byte{"empty": nil, "not a bundle": []byte("hello, this is no archive at all")} {
		if _, err := Read(bytes.NewReader(data), "x", small()); err == nil {
			t.Errorf("%s: was read", name)
		}
	}
}

// A bundle that ends at any byte is never taken for a whole one: it is refused, or the
// problem is named and nothing is known for certain.
func TestBundlesCutAnywhere(t *testing.T) {
	whole := pack(t, packed{name: "bundle.yaml", text: "version: 1\nstates: {leases: {state: absent}}\n"}, packed{name: "objects/nodes.ndjson", text: oneNode}, packed{name: "nodes/a1/files/etc/hosts", text: "10.0.0.1 a\n"})
	for n := range len(whole) {
		f, err := Read(bytes.NewReader(whole[:n]), "the bundle x", small())
		if err != nil {
			continue
		}
		if len(f.Problems) == 0 || f.KnownOf("leases").State != fact.Unknown || f.KnownOf("nodes").State != fact.Unknown {
			t.Errorf("%d of %d bytes: problems %+v, leases %+v, nodes %+v", n, len(whole), f.Problems, f.KnownOf("leases"), f.KnownOf("nodes"))
		}
	}
}

// A directory with a file of a gigabyte, a FIFO and links that lead away.
func TestHostileDirectory(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("nodes.yaml", oneNode)
	put("services.yaml", "")
	put("leases.ndjson", "")
	for name, size := range map[string]int64{"services.yaml": 1 << 30, "leases.ndjson": 1 << 30} {
		if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "deployments.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"pods.yaml": "/etc/passwd", "daemonsets.yaml": "../../x", "more.yaml": "nodes.yaml", "loop": "."} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	f, err := Open(dir, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %s", took)
	}
	for _, kind := range []fact.Kind{fact.Services, fact.Leases, fact.Deployments, fact.Pods, fact.DaemonSets} {
		if k := f.KnownOf(string(kind)); k.State != fact.Unknown || !strings.HasPrefix(k.Why, string(kind)+".") {
			t.Errorf("%s: %s, %s; want unknown by its file", kind, k.State, k.Why)
		}
	}
	// The link inside leads to the very same node.
	if len(f.Nodes.Items) != 1 || len(f.Problems) != 5 {
		t.Errorf("%d nodes, problems %+v; want 1 and 5", len(f.Nodes.Items), f.Problems)
	}
}

func TestOpenNamesWhatIsNotThere(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "x"), DefaultLimits()); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("objects/pods.json", onePod)
	f.Add("pods.yaml", "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n")
	f.Add("x.json", `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"x"}}]}`)
	f.Add("x.ndjson", onePod+"\n"+oneNode)
	f.Add("bundle.yaml", "version: 1\nstates: {pods: {state: absent}}\n")
	f.Add("probes.json", `{"probes":[{"address":"a:1","outcome":"ok","names":["*.a"]}]}`)
	f.Add("etcd.yaml", "members: [{name: a, healthy: true}]")
	f.Add("lookups.json", `{"lookups":[{"name":"a.x","server":"1","outcome":"ok","addresses":["10.0.0.1"]}]}`)
	f.Add("g/etcd_info/endpoint_health.json", `[{"endpoint":"https://a:1","health":true}]`)
	f.Add("g/etcd_info/member_list.json", `{"members":[{"ID":1,"name":"a"}]}`)
	f.Add("x.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {holdfast.dev/suppress: x}}\n")
	f.Add("kubeconfigs/a", "clusters: [{name: a, cluster: {server: https://h}}]\ncontexts: [{name: c, context: {cluster: a}}]")
	f.Add("nodes/a/files/etc/kubernetes/manifests/a.yaml", "kind: Pod\nspec: {containers: [{name: etcd, command: [etcd, --x=y]}]}")
	f.Fuzz(func(t *testing.T, name, text string) {
		if len(name) > 90 || strings.ContainsRune(name, 0) {
			return // the archive itself does not take it
		}
		facts, err := Read(bytes.NewReader(pack(t, packed{name: name, text: text})), "x", small())
		if err != nil {
			return
		}
		facts.APIReferences()
		facts.Components("etcd")
		for _, kind := range fact.Kinds() {
			if k := facts.KnownOf(string(kind)); k.State == fact.Unknown && k.Why == "" {
				t.Errorf("%s is unknown, and nobody says why", kind)
			}
		}
	})
}

func FuzzArchive(f *testing.F) {
	f.Add(pack(f, packed{name: "objects/nodes.ndjson", text: oneNode}))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = Read(bytes.NewReader(data), "x", small())
	})
}

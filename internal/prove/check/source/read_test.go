package source

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

func open(t *testing.T, files map[string]string) *fact.Facts {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Open(dir, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Problems {
		t.Errorf("%s: %s", p.Where, p.What)
	}
	return f
}

// Lists as kubectl and its dumps write them, with the line of each item, and fields
// of YAML with theirs.
func TestObjectsHaveTheirLines(t *testing.T) {
	f := open(t, map[string]string{
		"list.json":    "{\n  \"kind\": \"PodList\",\n  \"apiVersion\": \"v1\",\n  \"items\": [\n    {\n      \"metadata\": {\"name\": \"a\"}\n    },\n    {\n      \"metadata\": {\"name\": \"b\"}\n    }\n  ]\n}\n",
		"kubectl.json": "{\"apiVersion\": \"v1\",\n\"items\": [\n" + onePod + ",\n" + oneNode + "],\n\"kind\": \"List\"}",
		"two.yaml":     "# a comment\napiVersion: v1\nkind: Service\nmetadata:\n  name: s\nspec:\n  trafficDistribution: PreferClose\n---\napiVersion: v1\nkind: List\nitems:\n  - apiVersion: v1\n    kind: Service\n    metadata: {name: t}\n",
	})
	where := map[string]string{}
	for _, p := range f.Pods.Items {
		where[p.Object.Name] = p.At.String()
	}
	for _, s := range f.Services.Items {
		where[s.Object.Name] = s.At.Field("spec", "trafficDistribution").String()
	}
	for name, want := range map[string]string{
		"a": "Pod a (list.json:5)", "b": "Pod b (list.json:8)", "p": "Pod n/p (kubectl.json:3)",
		"s": "Service s (two.yaml:7)", "t": "Service t (two.yaml:12)",
	} {
		if where[name] != want {
			t.Errorf("%s: %q, want %q", name, where[name], want)
		}
	}
}

// A dump of kubectl cluster-info, whose items say nothing of their kind, and a
// must-gather, which has objects twice and files that are none.
func TestDegradedInputs(t *testing.T) {
	dump := open(t, map[string]string{
		"nodes.json":                   `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"a1"}}]}`,
		"kube-system/pods.json":        `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"etcd-a1","namespace":"kube-system"}}]}`,
		"kube-system/events.json":      `{"kind":"EventList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"x"}}]}`,
		"default/replicasets.json":     `{"kind":"ReplicaSetList","apiVersion":"apps/v1","metadata":{},"items":null}`,
		"kube-system/etcd-a1/logs.txt": "==== START logs ====\n",
	})
	gathered := open(t, map[string]string{
		"image/cluster-scoped-resources/core/nodes/a1.yaml":      "---\napiVersion: v1\nkind: Node\nmetadata: {name: a1}\n",
		"image/namespaces/kube-system/core/pods.yaml":            "---\napiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: etcd-a1, namespace: kube-system}\nkind: PodList\n",
		"image/namespaces/kube-system/pods/etcd-a1/etcd-a1.yaml": "---\napiVersion: v1\nkind: Pod\nmetadata: {name: etcd-a1, namespace: kube-system}\n",
		"image/etcd_info/endpoint_status.json":                   "[{\"Endpoint\":\"https://a1:2379\"}]\n",
		"image/version":                                          "x",
	})
	for name, f := range map[string]*fact.Facts{"dump": dump, "must-gather": gathered} {
		if f.Count(fact.Nodes) != 1 || f.Count(fact.Pods) != 1 || f.EndpointSlices.State != fact.Unknown || f.KnownOf("leases").Why == "" {
			t.Errorf("%s: %d nodes, %d pods, endpointslices %s", name, f.Count(fact.Nodes), f.Count(fact.Pods), f.EndpointSlices.State)
		}
	}
}

// What was not read is unknown, what was and is not there is absent.
func TestStates(t *testing.T) {
	f := open(t, map[string]string{
		"pods.yaml":                onePod,
		"secret.yaml":              "apiVersion: v1\nkind: Secret\ndata: {a: YQ==}\n",
		"bundle.yaml":              "version: 1\ncollected: 2026-11-30T10:00:00Z\nserver: v1.37.2\nstates:\n  leases: {state: present}\n  services: {state: absent}\n  configmaps/kube-system/kubeadm-config: {state: absent}\n",
		"nodes/a1/files/etc/hosts": "127.0.0.1 localhost\n",
	})
	for key, want := range map[string]string{
		"pods": "present", "leases": "absent", "services": "absent", "nodes": "unknown", "probes": "unknown", "files": "present", "files/a1": "present", "files/b2": "unknown",
	} {
		if got := f.KnownOf(key).State.String(); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	if _, k := f.ConfigMap("kube-system", "kubeadm-config"); k.State != fact.Absent {
		t.Errorf("kubeadm-config: %s, want absent", k.State)
	}
	if _, k := f.ConfigMap("kube-system", "other"); k.State != fact.Unknown || k.Why == "" {
		t.Errorf("other: %s, want unknown", k.State)
	}
	if _, k := f.FileOf("a1", "/etc/resolv.conf"); k.State != fact.Absent {
		t.Errorf("resolv.conf of a1: %s, want absent", k.State)
	}
	if _, k := f.FileOf("b2", "/etc/resolv.conf"); k.State != fact.Unknown {
		t.Errorf("resolv.conf of b2: %s, want unknown", k.State)
	}
	if f.Server != "v1.37.2" || f.Ignored["Secret"] != 1 {
		t.Errorf("server %q, ignored %v", f.Server, f.Ignored)
	}
}

// Of a machine the files are read that rules may ask for, links and all.
func TestNode(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"etc/hostname": "a1\n", "etc/haproxy/haproxy.cfg": "global\n", "etc/shadow": "root:x\n", "run/resolv": "nameserver 10.0.0.2\n",
		"etc/kubernetes/manifests/etcd.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: etcd}\nspec:\n  containers:\n    - name: etcd\n      command: [etcd]\n",
	} {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"etc/resolv.conf": "/run/resolv", "etc/hosts": "/run/gone"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	feed := NewFeed("a node", DefaultLimits())
	node, states, err := NodeTo(root, DefaultLimits(), feed.File)
	if err != nil || node != "a1" {
		t.Fatal(node, err)
	}
	f, err := feed.Close(Manifest{Version: Version, States: states})
	if err != nil || len(f.Problems) > 0 {
		t.Fatal(err, f.Problems)
	}
	if file, k := f.FileOf("a1", "/etc/resolv.conf"); k.State != fact.Present || !strings.Contains(string(file.Object.Data), "10.0.0.2") {
		t.Errorf("resolv.conf: %s", k.State)
	}
	if _, k := f.FileOf("a1", "/etc/hosts"); k.State != fact.Absent {
		t.Errorf("a link to nothing: %s", k.State)
	}
	if _, k := f.FileOf("a1", "/etc/shadow"); k.State == fact.Present {
		t.Error("a file was read that no rule asks for")
	}
	c := f.Components("etcd")
	if len(c) != 1 || c[0].Node != "a1" || c[0].At.File != "nodes/a1/files/etc/kubernetes/manifests/etcd.yaml" {
		t.Errorf("%+v", c)
	}
}

// The annotation of an object is kept with its place, in a list, as a static pod and
// of a custom resource; what only speaks of it is not, and neither is a Secret's.
func TestAnnotationsAreRead(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  namespace: n\n  annotations:\n    holdfast.dev/suppress: 'x'\n"
	facts, err := Read(bytes.NewReader(pack(t,
		packed{name: "pod.yaml", text: pod},
		packed{name: "nodes.ndjson", text: `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a1","annotations":{"holdfast.dev/suppress":"y"}}}`},
		packed{name: "nodes/a1/files/etc/kubernetes/manifests/p.yaml", text: pod},
		packed{name: "peer.yaml", text: "apiVersion: metallb.io/v1beta2\nkind: BGPPeer\nmetadata: {name: r, namespace: m, annotations: {holdfast.dev/suppress: z}}\n"},
		packed{name: "mirror.json", text: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p-a1","namespace":"n","annotations":{"holdfast.dev/suppress":"x","kubernetes.io/config.mirror":"h"}}}`},
		packed{name: "secret.yaml", text: strings.ReplaceAll(pod, "Pod", "Secret")},
		packed{name: "map.yaml", text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: 'holdfast.dev/suppress: x'}\n"},
	)), "x", small())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range facts.Suppressing {
		got = append(got, fmt.Sprintf("%s %s %s %t", a.Text, a.At, a.At.Node, a.Mirror))
	}
	slices.Sort(got)
	want := []string{
		"x Pod n/p (nodes/a1/files/etc/kubernetes/manifests/p.yaml:7) a1 false", "x Pod n/p (pod.yaml:7)  false",
		"x Pod n/p-a1 (mirror.json:1)  true", "y Node a1 (nodes.ndjson:1) a1 false", "z BGPPeer m/r (peer.yaml:3)  false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("annotations:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A must-gather's output of etcdctl becomes members; who did not tell of its health is
// not well, and a list alone tells of nobody.
func TestMustGatherTellsOfEtcd(t *testing.T) {
	const dir = "must-gather.local.1/quay-io-x/etcd_info/"
	list := packed{name: dir + "member_list.json", text: `{"header":{"cluster_id":1,"member_id":17451122461474421842,"raft_term":9},"members":[` +
		`{"ID":17451122461474421842,"name":"a1","peerURLs":["https://10.0.0.11:2380"],"clientURLs":["https://10.0.0.11:2379"]},` +
		`{"ID":2,"name":"b2","peerURLs":["https://10.0.0.12:2380"],"clientURLs":["https://10.0.0.12:2379"]},` +
		`{"ID":3,"name":"c3","peerURLs":["https://10.0.0.13:2380"],"clientURLs":["https://10.0.0.13:2379"]}]}`}
	status := packed{name: dir + "endpoint_status.json", text: `[{"Endpoint":"https://10.0.0.11:2379","Status":{"header":{"member_id":17451122461474421842},"version":"3.5.21","dbSize":94208,"leader":17451122461474421842,"raftIndex":8}},` +
		`{"Endpoint":"https://10.0.0.12:2379","Status":{"header":{"member_id":2},"version":"3.5.20","dbSize":94208,"leader":17451122461474421842}}]`}
	health := packed{name: dir + "endpoint_health.json", text: `[{"endpoint":"https://10.0.0.11:2379","health":true,"took":"9.2ms"},{"endpoint":"https://10.0.0.12:2379","health":false,"took":"5s","error":"context deadline exceeded"}]`}
	alarms := packed{name: dir + "alarm_list.json", text: `{"header":{},"alarms":[{"memberID":2,"alarm":1}]}`}
	facts, err := Read(bytes.NewReader(pack(t, list, status, health, alarms)), "x", small())
	if err != nil || len(facts.Problems) > 0 || len(facts.Etcd.Items) != 3 {
		t.Fatalf("%v, %+v, %+v", err, facts.Problems, facts.Etcd)
	}
	a, b, c := facts.Etcd.Items[0].Object, facts.Etcd.Items[1].Object, facts.Etcd.Items[2].Object
	if !a.Leader || !a.Healthy || a.Version != "3.5.21" || len(a.ID) != 16 || b.Leader || b.Healthy || b.Error == "" || !slices.Equal(b.Alarms, []string{"NOSPACE"}) || c.Healthy || c.Error == "" {
		t.Errorf("%+v\n%+v\n%+v", a, b, c)
	}
	for name, files := range map[string][]packed{
		"a list alone":  {list, status},
		"an error":      {list, {name: dir + "endpoint_health.json", text: "Error: context deadline exceeded\n"}},
		"another shape": {list, {name: dir + "endpoint_health.json", text: `{"a":1}`}},
	} {
		facts, err := Read(bytes.NewReader(pack(t, files...)), "x", small())
		if err != nil || facts.KnownOf("etcd").State != fact.Unknown || (name != "a list alone") != (len(facts.Problems) == 1) {
			t.Errorf("%s: %v, %+v, etcd %+v", name, err, facts.Problems, facts.KnownOf("etcd"))
		}
	}
}

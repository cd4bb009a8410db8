package supervise

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
)

// kubeadmPod is the manifest that kubeadm writes, but for its directories.
const kubeadmPod = `apiVersion: v1
kind: Pod
metadata:
  annotations:
    kubeadm.kubernetes.io/etcd.advertise-client-urls: https://10.0.0.1:2379
  labels: {component: etcd, tier: control-plane}
  name: etcd
  namespace: kube-system
spec:
  containers:
  - command:
    - etcd
    - --advertise-client-urls=https://10.0.0.1:2379
    - --cert-file=/etc/kubernetes/pki/etcd/server.crt
    - --client-cert-auth=true
    - --data-dir=/var/lib/etcd
    - --experimental-initial-corrupt-check=true
    - --initial-advertise-peer-urls=https://10.0.0.1:2380
    - --initial-cluster=a=https://10.0.0.1:2380
    - --initial-cluster-state=existing
    - --key-file=/etc/kubernetes/pki/etcd/server.key
    - --listen-client-urls=https://127.0.0.1:2379,https://10.0.0.1:2379
    - --listen-metrics-urls=http://127.0.0.1:2381
    - --listen-peer-urls=https://10.0.0.1:2380
    - --name=a
    - --peer-cert-file=/etc/kubernetes/pki/etcd/peer.crt
    - --peer-client-cert-auth=true
    - --peer-key-file=/etc/kubernetes/pki/etcd/peer.key
    - --peer-trusted-ca-file=/etc/kubernetes/pki/etcd/ca.crt
    - --snapshot-count=10000
    - --trusted-ca-file=/etc/kubernetes/pki/etcd/ca.crt
    image: registry.invalid/etcd:3.5.21-0
    livenessProbe: {failureThreshold: 8, httpGet: {host: 127.0.0.1, path: /livez, port: probe-port, scheme: HTTP}}
    name: etcd
    ports: [{containerPort: 2381, name: probe-port, protocol: TCP}]
    resources: {requests: {cpu: 100m, memory: 100Mi}}
    volumeMounts:
    - {mountPath: /var/lib/etcd, name: etcd-data}
    - {mountPath: /etc/kubernetes/pki/etcd, name: etcd-certs}
  hostNetwork: true
  priorityClassName: system-node-critical
  volumes:
  - {hostPath: {path: /pki, type: DirectoryOrCreate}, name: etcd-certs}
  - {hostPath: {path: /data, type: DirectoryOrCreate}, name: etcd-data}
status: {}
`

func TestManifestOfKubeadm(t *testing.T) {
	m, err := parseManifest([]byte(kubeadmPod))
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.describe()
	want := Etcd{
		Name: "a", DataDir: "/data", Version: "3.5.21", ElectionTimeout: time.Second, Heartbeat: 100 * time.Millisecond,
		ClientURLs: []string{"https://127.0.0.1:2379", "https://10.0.0.1:2379"}, PeerURLs: []string{"https://10.0.0.1:2380"},
		MetricsURLs: []string{"http://127.0.0.1:2381"}, AdvertiseClient: []string{"https://10.0.0.1:2379"},
		AdvertisePeer: []string{"https://10.0.0.1:2380"}, InitialCluster: map[string][]string{"a": {"https://10.0.0.1:2380"}},
		ClientTLS: creds.Files{CA: "/pki/ca.crt", Cert: "/pki/server.crt", Key: "/pki/server.key"},
		PeerTLS:   creds.Files{CA: "/pki/ca.crt", Cert: "/pki/peer.crt", Key: "/pki/peer.key"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
}

func TestManifestOfAJoin(t *testing.T) {
	m, err := parseManifest([]byte(kubeadmPod))
	if err != nil {
		t.Fatal(err)
	}
	const cluster = "a=https://10.0.0.1:2380,b=https://10.0.0.2:2380"
	content, err := m.join(cluster)
	if err != nil {
		t.Fatal(err)
	}
	joined, err := parseManifest(content)
	if err != nil || !joined.joins {
		t.Fatalf("%s\n%v", content, err)
	}
	words := joined.container().Command
	if n := len(words); !slices.Equal(words[n-2:], []string{"--initial-cluster=" + cluster, "--initial-cluster-state=existing"}) || n != len(m.container().Command) {
		t.Errorf("%q", words)
	}
	// Nothing else is another.
	joined.container().Command, joined.container().Args = m.container().Command, m.container().Args
	delete(joined.pod.Annotations, joinAnnotation)
	if !reflect.DeepEqual(joined.pod, m.pod) {
		t.Errorf("%+v\nwas %+v", joined.pod, m.pod)
	}
}

func TestManifestsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, old, now string
		want           Reason
	}{
		{"shell", "    - etcd\n", "    - /bin/sh\n    - -c\n    - etcd\n", Unclear},
		{"kind", "kind: Pod", "kind: Deployment", Unclear},
		{"no YAML", "kind: Pod", "kind: [", Unclear},
		{"two", "  hostNetwork:", "  - {name: other, command: [etcd]}\n  hostNetwork:", Unclear},
		{"variable", "--name=a", "--name=$(NODE)", Unclear},
		{"elsewhere", "    name: etcd\n    ports", "    env: [{name: ETCD_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]\n    name: etcd\n    ports", Unclear},
		{"empty directory", "{hostPath: {path: /data, type: DirectoryOrCreate}", "{emptyDir: {}", Unfit},
		{"configuration file", "--name=a", "--config-file=/etc/etcd.yaml", Unfit},
		{"old", ":3.5.21-0", ":3.4.13-0", Unfit},
		{"new cluster", "--name=a", "--force-new-cluster", Unfit},
	} {
		text := strings.Replace(kubeadmPod, c.old, c.now, 1)
		if text == kubeadmPod {
			t.Fatalf("%s changes nothing", c.name)
		}
		m, err := parseManifest([]byte(text))
		if err == nil {
			_, err = m.describe()
		}
		t.Log(c.name, err)
		refusal(t, err, c.want)
	}
}

// staticPod is a supervisor of the manifest with directories of the test.
func staticPod(t *testing.T) (p *StaticPod, path string) {
	t.Helper()
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	path = filepath.Join(dir, "etcd.yaml")
	text := strings.NewReplacer("path: /data", "path: "+data, "hostNetwork: true", "hostNetwork: false").Replace(kubeadmPod)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := NewStaticPod(t.Context(), StaticPodOptions{Manifest: path, StateDir: t.TempDir(), Root: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Detach)
	return p, path
}

// runs holds etcd's lock as a running one does, until the returned function.
func runs(t *testing.T, dataDir string) (end func()) {
	t.Helper()
	path := database(dataDir)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { _ = f.Close() }
}

func TestStaticPodIsStoppedOnceItsLockStaysFree(t *testing.T) {
	p, path := staticPod(t)
	if s := state(t, p); s.Phase != Starting {
		t.Errorf("with its manifest in place: %+v", s)
	}
	end := runs(t, p.etcd.DataDir)
	if s := state(t, p); s.Phase != Running || s.PID != os.Getpid() {
		t.Errorf("with its lock held: %+v", s)
	}
	began := time.Now()
	stopped := make(chan error, 1)
	// A grace longer than the test: the process with the lock is the test itself.
	go func() { stopped <- p.Stop(t.Context(), time.Hour) }()
	if !comes(5*time.Second, func() bool { return !exists(path) && exists(p.away) }) {
		t.Fatal("the manifest is not taken away")
	}
	select {
	case err := <-stopped:
		t.Fatalf("stopped with its lock held: %v", err)
	default:
	}
	end()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < settleTime {
		t.Errorf("stopped after %s", took)
	}
	// The agent itself may have the lock now.
	defer runs(t, p.etcd.DataDir)()
	if s := state(t, p); s.Phase != Stopped {
		t.Errorf("stopped: %+v", s)
	}
}

func TestStaticPodsManifests(t *testing.T) {
	p, path := staticPod(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	same := func(where string) {
		t.Helper()
		if got, err := os.ReadFile(where); err != nil || string(got) != string(before) {
			t.Errorf("%s is not the original: %v", where, err)
		}
	}
	stop := func() {
		t.Helper()
		if err := p.Stop(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if exists(path) {
			t.Error("stopped with its manifest in place")
		}
		same(p.away)
	}
	stop()
	mode := Mode{Existing: true, InitialCluster: "a=https://10.0.0.1:2380,b=https://10.0.0.2:2380"}
	start(t, p, mode)
	if m, err := readManifest(path); err != nil || !m.joins {
		t.Errorf("no manifest of a join: %v", err)
	}
	same(p.away)
	if o, err := p.original(); err != nil || o.joins {
		t.Errorf("the original is not found: %v", err)
	}
	stop()
	start(t, p, Mode{})
	same(path)
	if exists(p.away) {
		t.Error("in place and away")
	}
	stop()
	if err := ReleaseStaticPod(path); err != nil {
		t.Fatal(err)
	}
	same(path)
	if err := errors.Join(ReleaseStaticPod(path), p.Start(t.Context(), Mode{})); err == nil {
		t.Error("started twice")
	}
}

// FuzzManifest: no manifest brings the reader down, and one for a join is one
// that can be read again.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(kubeadmPod))
	f.Add([]byte("kind: Pod\nmetadata: {}\nspec: {containers: [{args: [etcd, --name, a], env: [{name: ETCD_INITIAL_CLUSTER, value: x}]}]}\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		m, err := parseManifest(content)
		if err != nil {
			return
		}
		_, _ = m.describe()
		const cluster = "a=http://10.0.0.1:2380"
		joined, err := m.join(cluster)
		if err != nil {
			return
		}
		again, err := parseManifest(joined)
		if err != nil || !again.joins {
			t.Fatalf("%q became %q: %v", content, joined, err)
		}
		in, err := again.input()
		if err != nil {
			t.Fatalf("%q became %q: %v", content, joined, err)
		}
		s, err := in.settings()
		if err != nil && !errors.As(err, new(*Refusal)) || err == nil && s["initial-cluster"] != cluster {
			t.Fatalf("%q became %q: %v", content, joined, err)
		}
	})
}

package arbiter

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/base/offspring"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/pki"
)

// peer returns a program that scripts/peers builds. Without it the test skips on a
// laptop and fails in CI, where nothing may go untested.
func peer(t *testing.T, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "holdfast", "peers", name)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no %s: %v; run scripts/peers", name, err)
		}
		t.Skipf("no %s: %v; run scripts/peers", name, err)
	}
	return path
}

// output is what a program says, for the case that it fails.
type output struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}

// run starts a program that ends with the test, and waits for its port. What it returns
// is closed when the program ends.
func run(t *testing.T, addr string, env []string, program string, args ...string) <-chan struct{} {
	t.Helper()
	cmd := exec.Command(program, args...)
	said := &output{}
	cmd.Stdout, cmd.Stderr = said, said
	cmd.Env = append(os.Environ(), env...)
	if err := offspring.Start(cmd); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(program), said)
		}
	})
	comesUp(t, ended, program+" listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return ended
}

// comesUp waits for a peer as long as it lives: how long it takes to start is its own
// affair, a minute where eight others want the processor, too.
func comesUp(t *testing.T, ended <-chan struct{}, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Minute); !holds(); {
		select {
		case <-ended:
			t.Fatal("it ended by itself before this: ", what)
		case <-tick.C:
		}
		if time.Now().After(deadline) {
			t.Fatal("not within 5 minutes: ", what)
		}
	}
}

const (
	accessKey = "pair"
	secretKey = "a secret that nobody guesses"
)

// versitygw runs the real thing on a directory with one bucket.
func versitygw(t *testing.T, dir string, global []string, posix ...string) (addr string) {
	t.Helper()
	program := peer(t, "versitygw")
	addr = freeAddress(t)
	if err := os.MkdirAll(filepath.Join(dir, "bucket"), 0o700); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--access", accessKey, "--secret", secretKey, "--port", addr, "--quiet", "--keep-alive"}, global...)
	args = append(append(append(args, "posix"), posix...), dir)
	run(t, addr, nil, program, args...)
	return addr
}

func keysFile(t *testing.T, access, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials")
	text := "# rotated daily\n[other]\naws_access_key_id = x\n[ default ]\naws_access_key_id = " + access + "\naws_secret_access_key=" + secret + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func startS3(t *testing.T) Settings {
	t.Helper()
	addr := versitygw(t, t.TempDir(), nil)
	return Settings{URL: "s3://bucket/pairs/prod?endpoint=http://" + addr, CredentialsFile: keysFile(t, accessKey, secretKey)}
}

// etcdRun is one real etcd over TLS.
type etcdRun struct {
	addr  string
	files pki.Files
}

func startEtcd(t *testing.T, extra ...string) etcdRun {
	t.Helper()
	program := peer(t, "etcd-3.6")
	dir := t.TempDir()
	ca, err := pki.NewAuthority(dir, "etcd", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	files, err := ca.Issue(filepath.Join(dir, "m"), "m")
	if err != nil {
		t.Fatal(err)
	}
	client, raft := freeAddress(t), freeAddress(t)
	ended := run(t, client, nil, program, append([]string{
		"--data-dir", filepath.Join(dir, "data"), "--log-level", "error",
		"--listen-client-urls", "https://" + client, "--advertise-client-urls", "https://" + client,
		"--listen-peer-urls", "http://" + raft, "--initial-advertise-peer-urls", "http://" + raft,
		"--initial-cluster", "default=http://" + raft, "--initial-cluster-token", raft, // else two have one cluster id
		"--client-cert-auth", "--trusted-ca-file", files.CA, "--cert-file", files.ServerCert, "--key-file", files.ServerKey,
	}, extra...)...)
	e := etcdRun{client, files}
	// It listens before it serves, and whoever asks in between waits for a handshake.
	c := e.dial(t)
	comesUp(t, ended, "etcd serves", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := c.Get(ctx, "x")
		return err == nil
	})
	return e
}

// settings have a dead member in front.
func (e etcdRun) settings() Settings {
	return Settings{
		URL: "etcd+https://" + "127.0.0.1:1" + "," + e.addr + "/pairs/prod", CAFile: e.files.CA,
		CertFile: e.files.ClientCert, KeyFile: e.files.ClientKey,
	}
}

func (e etcdRun) dial(t *testing.T) *clientv3.Client {
	t.Helper()
	config, err := creds.Files{CA: e.files.CA, Cert: e.files.ClientCert, Key: e.files.ClientKey}.Client("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + e.addr}, TLS: config, Logger: zap.NewNop(), DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// startAPIServer runs a real kube-apiserver on etcd and returns the settings of a
// ConfigMap in it.
func startAPIServer(t *testing.T, e etcdRun, extra ...string) Settings {
	t.Helper()
	program := peer(t, "kube-apiserver-1.35")
	dir, addr := t.TempDir(), freeAddress(t)
	ca, err := pki.NewAuthority(dir, "kubernetes", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := pki.MakeServiceAccountKey(dir); err != nil {
		t.Fatal(err)
	}
	loopback := netip.MustParseAddr("127.0.0.1")
	files, err := ca.IssueKubernetes(dir, filepath.Join(dir, "n"), pki.Node{Name: "n", Server: "https://" + addr, NodeServer: "https://" + addr, IPs: []netip.Addr{loopback}})
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addr)
	ended := run(t, addr, nil, program, append([]string{
		"--advertise-address=127.0.0.1", "--bind-address=127.0.0.1", "--secure-port=" + port, "--authorization-mode=Node,RBAC",
		"--client-ca-file=" + files.CA, "--tls-cert-file=" + files.ServerCert, "--tls-private-key-file=" + files.ServerKey,
		"--etcd-servers=https://" + e.addr, "--etcd-cafile=" + e.files.CA, "--etcd-certfile=" + e.files.ClientCert, "--etcd-keyfile=" + e.files.ClientKey,
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + files.ServiceAccountPub,
		"--service-account-signing-key-file=" + files.ServiceAccountKey, "--disable-admission-plugins=ServiceAccount", "--profiling=false",
	}, extra...)...)
	s := Settings{URL: "configmap://kube-system/pair-prod?kubeconfig=" + files.AdminConf}
	opened := open(t, s)
	comesUp(t, ended, "the apiserver takes a write", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		beside, err := opened.Beside("-await")
		if err != nil {
			t.Fatal(err)
		}
		_, err = beside.Swap(ctx, "", []byte("x"))
		return err == nil || errors.Is(err, ErrLost)
	})
	return s
}

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/image"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/supervise"
)

// staticEtcd is a static pod as kubeadm has it, without certificates.
const staticEtcd = `apiVersion: v1
kind: Pod
metadata: {name: etcd, namespace: kube-system}
spec:
  hostNetwork: true
  containers:
  - name: etcd
    image: lab.invalid/etcd:3.6.0
    command: [/etcd, --name=a, --data-dir=/data, "--listen-client-urls=http://127.77.0.1:12379", "--advertise-client-urls=http://127.77.0.1:12379",
      "--listen-peer-urls=http://127.77.0.1:12380", "--initial-advertise-peer-urls=http://127.77.0.1:12380", "--initial-cluster=a=http://127.77.0.1:12380"]
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, hostPath: {path: DATA, type: DirectoryOrCreate}}]
`

// TestStaticPodOfEtcd has a real kubelet run etcd, and takes it away from it.
func TestStaticPodOfEtcd(t *testing.T) {
	nightly(t)
	r := startRouted(t)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join(cache, "holdfast", "peers", "etcd-3.6"))
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := (image.Image{Name: "lab.invalid/etcd:3.6.0", Path: "/etcd", Program: program}).Write(&archive); err != nil {
		t.Fatal(err)
	}
	tar := filepath.Join(r.lab.Dir(), "etcd.tar")
	if err := os.WriteFile(tar, archive.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := r.lab.Containerd(r.node("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Import(r.within(time.Minute), tar); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(r.lab.Dir(), "etcd-data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	r.place("a", "etcd.yaml", strings.Replace(staticEtcd, "DATA", data, 1))
	k, err := r.lab.Kubelet(r.node("a"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := supervise.NewStaticPod(t.Context(), supervise.StaticPodOptions{
		Manifest: filepath.Join(k.Manifests(), "etcd.yaml"), StateDir: t.TempDir(), Root: t.TempDir(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Detach()
	pid := r.servesPod(p, 0)
	r.killedPod(p, pid)
	r.stoppedPod(p)

	if err := p.Start(t.Context(), supervise.Mode{}); err != nil {
		t.Fatal(err)
	}
	pid = r.servesPod(p, 0)
	if words := commandOf(t, pid); strings.Contains(words, "existing") {
		t.Errorf("started as for a join: %s", words)
	}
	r.stoppedPod(p)

	if err := p.Start(t.Context(), supervise.Mode{Existing: true, InitialCluster: "a=http://127.77.0.1:12380"}); err != nil {
		t.Fatal(err)
	}
	if words := commandOf(t, r.servesPod(p, 0)); !strings.Contains(words, "--initial-cluster-state=existing") {
		t.Errorf("not started as for a join: %s", words)
	}
	r.stoppedPod(p)
}

func commandOf(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.ReplaceAll(b, []byte{0}, []byte(" ")))
}

// servesPod waits until another process than before takes a write.
func (r *routed) servesPod(p supervise.Supervisor, before int) int {
	r.t.Helper()
	m, err := r.lab.Member("main", "a")
	if err != nil {
		r.t.Fatal(err)
	}
	cli, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"http://127.77.0.1:12379"}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return m.Node().DialContext(ctx, "tcp", "127.77.0.1:12379")
		})},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = cli.Close() }()
	began, pid := time.Now(), 0
	r.until("etcd serves", 2*time.Minute, func() error {
		s, err := p.State(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		if s.Phase == supervise.Stopped {
			r.t.Fatal("stopped, with its manifest before the kubelet")
		}
		if s.Phase != supervise.Running || s.PID == before {
			return fmt.Errorf("%s, process %d", s.Phase, s.PID)
		}
		pid = s.PID
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
		defer cancel()
		_, err = cli.Put(ctx, "k", "v")
		return err
	})
	r.t.Logf("serves after %s", time.Since(began).Round(time.Millisecond))
	return pid
}

// killedPod wants the kubelet to start what was killed, which is never stopped meanwhile.
func (r *routed) killedPod(p supervise.Supervisor, pid int) {
	r.t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
	r.servesPod(p, pid)
}

// stoppedPod stops etcd and watches that the kubelet leaves it so.
func (r *routed) stoppedPod(p *supervise.StaticPod) {
	r.t.Helper()
	began := time.Now()
	if err := p.Stop(r.within(2*time.Minute), 10*time.Second); err != nil {
		r.t.Fatal(err)
	}
	r.t.Logf("stopped after %s", time.Since(began).Round(time.Millisecond))
	db := filepath.Join(p.Describe().DataDir, "member", "snap", "db")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(15 * time.Second); ; {
		select {
		case <-end:
			return
		case <-tick.C:
		}
		f, err := os.Open(db)
		if err != nil {
			r.t.Fatal(err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		_ = f.Close()
		if err != nil {
			r.t.Fatalf("%s after it was stopped: %v", time.Since(began), err)
		}
	}
}

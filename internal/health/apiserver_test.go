package health

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
	"github.com/holdfast-ha/holdfast/internal/base/offspring"
)

// apiserver is a real kube-apiserver on loopback with an etcd of its own.
type apiserver struct {
	addr string
	etcd *member
	cmd  *exec.Cmd
	done chan struct{}
}

func startAPIServer(t *testing.T, files creds.Files, args ...string) *apiserver {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(cache, "holdfast", "peers", "kube-apiserver-1.35")
	if _, err := os.Stat(binary); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v; type: make peers", err)
		}
		t.Skipf("%v; type: make peers", err)
	}
	s := &apiserver{addr: freeAddress(t), etcd: newMember(t, peer(t, "3.6"), "a", files), done: make(chan struct{})}
	s.etcd.start("new", s.etcd)
	_, port, _ := strings.Cut(s.addr, ":")
	s.cmd = exec.Command(binary, append([]string{
		"--etcd-servers=https://" + s.etcd.client, "--etcd-cafile=" + files.CA, "--etcd-certfile=" + files.Cert, "--etcd-keyfile=" + files.Key,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + port,
		"--tls-cert-file=" + files.Cert, "--tls-private-key-file=" + files.Key, "--client-ca-file=" + files.CA,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + files.Cert, "--service-account-signing-key-file=" + files.Key,
		"--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC", "--shutdown-delay-duration=3s",
	}, args...)...)
	s.cmd.Stderr = t.Output()
	if err := offspring.Start(s.cmd); err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.cmd.Wait(); close(s.done) }()
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); <-s.done })
	return s
}

// becomes waits as member.becomes does.
func (s *apiserver) becomes(t *testing.T, p Prober, grade Grade, reason string) {
	t.Helper()
	(&member{t: t, name: "kube-apiserver"}).becomes(p, grade, reason)
}

// TestRealAPIServer takes one through its life: what it says is what we read.
func TestRealAPIServer(t *testing.T) {
	a := newAuthority(t)
	files := a.issue("system:node:n1", tomorrow, false)
	s := startAPIServer(t, files, "--anonymous-auth=false")
	whole := prober(t, Check{Kind: HTTPS, TLS: files}, s.addr)
	// RBAC lets all who are authenticated read /readyz.
	s.becomes(t, whole, Ready, "")
	anonymous := prober(t, Check{Kind: HTTPS, TLS: creds.Files{CA: files.CA}, ServerName: "kubernetes"}, s.addr)
	s.becomes(t, anonymous, Alive, "says to nobody whether it is ready (401)")
	stranger := newAuthority(t).issue("stranger", tomorrow, false)
	s.becomes(t, prober(t, Check{Kind: HTTPS, TLS: creds.Files{CA: files.CA, Cert: stranger.Cert, Key: stranger.Key}}, s.addr), Alive, "credentials refused (401)")

	_ = s.etcd.cmd.Process.Signal(syscall.SIGSTOP)
	s.becomes(t, whole, NotReady, "etcd")
	_ = s.etcd.cmd.Process.Signal(syscall.SIGCONT)
	s.becomes(t, whole, Ready, "")

	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	s.becomes(t, whole, ShuttingDown, "")
	s.becomes(t, whole, Refused, "")
}

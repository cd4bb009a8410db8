package health

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
)

func TestCheckNamesFieldAndRemedy(t *testing.T) {
	ca := creds.Files{CA: newAuthority(t).issue("x", tomorrow, false).CA}
	empty := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(empty, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		check Check
		want  string
	}{
		{Check{}, `kind: "" is not a kind of check; give one of ["https" "http" "tcp" "etcd" "exec"]`},
		{Check{Kind: TCP, Path: "/x"}, "path: "},
		{Check{Kind: HTTP, Path: "x"}, "path: "},
		{Check{Kind: HTTP, Path: "/x\r\nHost: y"}, "path: "},
		{Check{Kind: HTTP, TLS: ca}, "ca, cert, key: "},
		{Check{Kind: TCP, ServerName: "x"}, "serverName: "},
		{Check{Kind: HTTPS, TLS: ca, ServerName: "x\r\ny"}, "serverName: "},
		{Check{Kind: Etcd, TokenFile: "x"}, "tokenFile: "},
		{Check{Kind: HTTPS, TLS: ca, Codes: []int{200}}, "codes: "},
		{Check{Kind: HTTP, Codes: []int{99}}, "codes: 99"},
		{Check{Kind: Exec}, "command: "},
		{Check{Kind: TCP, Command: []string{"x"}}, "command: "},
		{Check{Kind: HTTPS, TLS: creds.Files{CA: "/no/ca.crt"}}, "CA /no/ca.crt: file does not exist"},
		{Check{Kind: HTTPS, TLS: ca, TokenFile: "/no/token"}, "token /no/token: file does not exist; check the path"},
		{Check{Kind: HTTPS, TLS: ca, TokenFile: empty}, "token " + empty + ": is empty"},
	} {
		_, err := c.check.Open()
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || !strings.Contains(err.Error(), "; ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", c.check, err, c.want)
		}
	}
	m, err := Check{Kind: HTTPS, TLS: ca}.Open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Prober("unix", "/run/x"); err == nil || !strings.HasPrefix(err.Error(), "serverName: ") {
		t.Errorf("unix: %v", err)
	}
	if _, err := m.Prober("tcp", "10.0.0.1"); err == nil || !strings.HasPrefix(err.Error(), "address: ") {
		t.Errorf("no port: %v", err)
	}
}

func TestHostHeader(t *testing.T) {
	for _, c := range []struct{ given, network, address, name, host string }{
		{"", "tcp", "10.0.0.1:6443", "10.0.0.1", "10.0.0.1:6443"},
		{"", "tcp", "[fd00::1]:6443", "fd00::1", "[fd00::1]:6443"},
		{"", "tcp", "[fe80::1%eth0]:6443", "fe80::1", "[fe80::1]:6443"},
		{"kubernetes", "tcp", "10.0.0.1:6443", "kubernetes", "kubernetes"},
		{"", "unix", "/run/x", "", "localhost"},
	} {
		m := &Method{check: Check{ServerName: c.given}}
		if name, host, err := m.names(c.network, c.address); name != c.name || host != c.host || err != nil {
			t.Errorf("%+v: %q, %q, %v", c, name, host, err)
		}
	}
}

// plant copies credentials below root to where a distribution keeps them.
func (a *authority) plant(root string, to creds.Files) {
	a.t.Helper()
	from := a.issue("system:node:n1", tomorrow, to.Cert == to.Key)
	for dst, src := range map[string]string{to.CA: from.CA, to.Cert: from.Cert, to.Key: from.Key} {
		data, err := os.ReadFile(src)
		if err != nil {
			a.t.Fatal(err)
		}
		a.write(filepath.Join(root, dst), data)
	}
}

func TestFindKubelet(t *testing.T) {
	a := newAuthority(t)
	for _, k := range kubelets {
		root := t.TempDir()
		a.plant(root, k.Files)
		got, err := FindKubelet(root)
		if err != nil || got.Distribution != k.Distribution || got.Files != under(root, k.Files) {
			t.Errorf("%s: %+v, %v", k.Distribution, got, err)
		}
		if err := os.Remove(got.Files.CA); err != nil {
			t.Fatal(err)
		}
		if _, err := FindKubelet(root); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNoKubelet) || !strings.Contains(err.Error(), got.Files.CA) {
			t.Errorf("%s without its CA: %v", k.Distribution, err)
		}
	}
	if _, err := FindKubelet(t.TempDir()); !errors.Is(err, ErrNoKubelet) {
		t.Errorf("nothing: %v", err)
	}
}

// TestFindKubeletFollowsItsLink: on the node the link is followed at each
// rotation; seen from elsewhere it leads nowhere, and the error says so.
func TestFindKubeletFollowsItsLink(t *testing.T) {
	a, root := newAuthority(t), t.TempDir()
	kubeadm := kubelets[len(kubelets)-1].Files
	a.plant(root, kubeadm)
	current := filepath.Join(root, kubeadm.Cert)
	first, second := filepath.Join(filepath.Dir(current), "1.pem"), filepath.Join(filepath.Dir(current), "2.pem")
	if err := os.Rename(current, first); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(a.issue("later", tomorrow, true).Cert)
	if err != nil {
		t.Fatal(err)
	}
	a.write(second, data)
	for _, target := range []string{first, second} {
		_ = os.Remove(current)
		if err := os.Symlink(target, current); err != nil {
			t.Fatal(err)
		}
		if got, err := FindKubelet(root); err != nil || got.Files.Cert != current {
			t.Errorf("%+v, %v", got, err)
		}
	}
	_ = os.Remove(current)
	if err := os.Symlink("/var/lib/kubelet/pki/no.pem", current); err != nil {
		t.Fatal(err)
	}
	if _, err := FindKubelet(root); err == nil || !strings.Contains(err.Error(), "mount that directory under its own path") {
		t.Errorf("link that leads nowhere: %v", err)
	}
}

func TestCommand(t *testing.T) {
	sh := func(script string) Check { return Check{Kind: Exec, Command: []string{"/bin/sh", "-c", script}} }
	for _, c := range []struct {
		check  Check
		grade  Grade
		reason string
	}{
		{sh(`test "$HOLDFAST_CHECK_ADDRESS" = 10.0.0.1:1`), Ready, ""},
		{sh("echo no route; echo more; exit 3"), NotReady, "exit status 3: no route"},
		{sh("yes | head -c 100000; exit 1"), NotReady, "exit status 1: y"},
		{sh("kill -9 $$"), NotReady, "signal: killed"},
		{Check{Kind: Exec, Command: []string{"/no/such/program"}}, NotReady, "run command: "},
	} {
		r := probe1(t, prober(t, c.check, "10.0.0.1:1"), false)
		if r.Grade != c.grade || !strings.HasPrefix(r.Reason, c.reason) || (c.reason == "") != (r.Reason == "") || strings.Contains(r.Reason, "\n") {
			t.Errorf("%q: %+v", c.check.Command, r)
		}
	}
}

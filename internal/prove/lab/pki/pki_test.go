package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestIssue(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	dir := t.TempDir()
	ca, err := NewAuthority(dir, "etcd-ca main", now)
	if err != nil {
		t.Fatal(err)
	}
	f, err := ca.Issue(filepath.Join(dir, "a1"), "a1", netip.MustParseAddr("10.77.1.11"), netip.MustParseAddr("fd77:1::11"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(f.CA)
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		t.Fatalf("authority is not usable: %v", err)
	}
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, tt := range []struct {
		cert, key, subject string
		usage              []x509.ExtKeyUsage
		names              []string
	}{
		{f.ServerCert, f.ServerKey, "a1", both, []string{"a1", "localhost", "127.0.0.1", "::1", "10.77.1.11", "fd77:1::11"}},
		{f.PeerCert, f.PeerKey, "a1", both, []string{"a1", "10.77.1.11", "fd77:1::11"}},
		{f.ClientCert, f.ClientKey, "kube-etcd-healthcheck-client", both[1:], nil},
	} {
		pair, err := tls.LoadX509KeyPair(tt.cert, tt.key)
		if err != nil {
			t.Fatal(err)
		}
		c := pair.Leaf
		if c.Subject.CommonName != tt.subject || !slices.Equal(c.ExtKeyUsage, tt.usage) {
			t.Errorf("%s: subject %s, usage %v", tt.cert, c.Subject, c.ExtKeyUsage)
		}
		for _, usage := range tt.usage {
			opts := x509.VerifyOptions{Roots: pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}
			if _, err := c.Verify(opts); err != nil {
				t.Errorf("%s: %v", tt.cert, err)
			}
		}
		for _, name := range tt.names {
			if err := c.VerifyHostname(name); err != nil {
				t.Errorf("%s: %v", tt.cert, err)
			}
		}
		if len(tt.names) == 0 && len(c.DNSNames)+len(c.IPAddresses) > 0 {
			t.Errorf("%s: names a server: %v %v", tt.cert, c.DNSNames, c.IPAddresses)
		}
		if st, err := os.Stat(tt.key); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", tt.key, st.Mode(), err)
		}
	}
}

func TestAuthoritiesDoNotMix(t *testing.T) {
	now := time.Now()
	var pairs []tls.Certificate
	pools := []*x509.CertPool{x509.NewCertPool(), x509.NewCertPool()}
	for i := range 2 {
		dir := t.TempDir()
		ca, err := NewAuthority(dir, "etcd-ca", now)
		if err != nil {
			t.Fatal(err)
		}
		pools[i].AddCert(ca.cert)
		f, err := ca.Issue(dir, "a1")
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.LoadX509KeyPair(f.ServerCert, f.ServerKey)
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, pair)
	}
	for i := range 2 {
		if _, err := pairs[i].Leaf.Verify(x509.VerifyOptions{Roots: pools[i]}); err != nil {
			t.Errorf("own authority refuses: %v", err)
		}
		if _, err := pairs[i].Leaf.Verify(x509.VerifyOptions{Roots: pools[1-i]}); err == nil {
			t.Error("a foreign authority accepts")
		}
	}
}

func TestIssueKubernetes(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	shared := t.TempDir()
	ca, err := NewAuthority(shared, "kubernetes", now)
	if err != nil {
		t.Fatal(err)
	}
	if err := MakeServiceAccountKey(shared); err != nil {
		t.Fatal(err)
	}
	if err := MakeFrontProxy(shared, now); err != nil {
		t.Fatal(err)
	}
	f, err := ca.IssueKubernetes(shared, filepath.Join(shared, "a1"), Node{
		Name: "a1", Server: "https://10.77.1.11:6443", NodeServer: "https://127.0.0.1:7445",
		IPs: []netip.Addr{netip.MustParseAddr("10.77.1.11")},
	})
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	for _, tt := range []struct {
		cert, key, subject, group string
		usage                     x509.ExtKeyUsage
	}{
		{f.ServerCert, f.ServerKey, "kube-apiserver", "", x509.ExtKeyUsageServerAuth},
		{f.AdminCert, f.AdminKey, "kubernetes-super-admin", "system:masters", x509.ExtKeyUsageClientAuth},
		{f.KubeletCert, f.KubeletKey, "system:node:a1", "system:nodes", x509.ExtKeyUsageClientAuth},
		{f.KubeletClientCert, f.KubeletClientKey, "kube-apiserver-kubelet-client", "system:masters", x509.ExtKeyUsageClientAuth},
	} {
		pair, err := tls.LoadX509KeyPair(tt.cert, tt.key)
		if err != nil {
			t.Fatal(err)
		}
		c := pair.Leaf
		if c.Subject.CommonName != tt.subject || tt.group != "" && !slices.Equal(c.Subject.Organization, []string{tt.group}) {
			t.Errorf("%s: subject %s", tt.cert, c.Subject)
		}
		if _, err := c.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{tt.usage}}); err != nil {
			t.Errorf("%s: %v", tt.cert, err)
		}
	}
	pair, _ := tls.LoadX509KeyPair(f.ServerCert, f.ServerKey)
	for _, name := range []string{"a1", "localhost", "127.0.0.1", "::1", "10.96.0.1", "10.77.1.11", "kubernetes", "kubernetes.default.svc"} {
		if err := pair.Leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	for file, want := range map[string]string{
		f.ServiceAccountPub: "BEGIN PUBLIC KEY", f.ServiceAccountKey: "BEGIN PRIVATE KEY", f.CAKey: "BEGIN PRIVATE KEY",
	} {
		data, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s does not say %q: %v", file, want, err)
		}
	}
	front := x509.NewCertPool()
	if data, err := os.ReadFile(f.FrontProxyCA); err != nil || !front.AppendCertsFromPEM(data) {
		t.Fatalf("the front proxy's authority is not usable: %v", err)
	}
	if pair, err = tls.LoadX509KeyPair(f.FrontProxyClientCert, f.FrontProxyClientKey); err != nil {
		t.Fatal(err)
	}
	for roots, want := range map[*x509.CertPool]bool{front: true, pool: false} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if (err == nil) != want {
			t.Errorf("the front proxy's certificate: %v, want it accepted: %v", err, want)
		}
	}
	for _, tt := range []struct{ path, server, user, subject string }{
		{f.AdminConf, "https://10.77.1.11:6443", "admin", "CN=kubernetes-super-admin,O=system:masters"},
		{f.KubeletConf, "https://127.0.0.1:7445", "system:node:a1", "CN=system:node:a1,O=system:nodes"},
		{f.ControllerManagerConf, "https://10.77.1.11:6443", "system:kube-controller-manager", "CN=system:kube-controller-manager"},
		{f.SchedulerConf, "https://10.77.1.11:6443", "system:kube-scheduler", "CN=system:kube-scheduler"},
		{f.KubeProxyConf, "https://127.0.0.1:7445", "system:kube-proxy", "CN=system:kube-proxy,O=system:node-proxier"},
	} {
		checkKubeconfig(t, pool, tt.path, tt.server, tt.user, tt.subject)
	}
	files, err := os.ReadDir(f.Dir)
	if err != nil || len(files) != 14 {
		t.Errorf("%d files in the directory of a node, want 14: %v, %v", len(files), files, err)
	}
}

// checkKubeconfig reads a kubeconfig as a program without it would: the server,
// the user, and the certificate inside.
func checkKubeconfig(t *testing.T, pool *x509.CertPool, path, server, user, subject string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"server: " + server, fmt.Sprintf("user: %q", user)} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s does not say %s", path, want)
		}
	}
	field := func(name string) []byte {
		for line := range strings.Lines(string(data)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+": "); ok {
				raw, _ := base64.StdEncoding.DecodeString(value)
				return raw
			}
		}
		return nil
	}
	pair, err := tls.X509KeyPair(field("client-certificate-data"), field("client-key-data"))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if got := pair.Leaf.Subject.String(); got != subject {
		t.Errorf("%s: subject %s, want %s", path, got, subject)
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: pair.Leaf.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Errorf("%s: %v", path, err)
	}
}

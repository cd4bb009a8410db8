package etcd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// plant makes empty files below a fresh root.
func plant(t *testing.T, dir string, names ...string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(root, dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestFindPKI(t *testing.T) {
	const kubeadm, rancher, talos = "etc/kubernetes/pki/etcd", "var/lib/rancher/%/server/tls/etcd", "system/secrets/etcd"
	k3sFiles := []string{"server-ca.crt", "client.crt", "client.key", "peer-ca.crt", "peer-server-client.crt", "peer-server-client.key"}
	for _, c := range []struct {
		distribution, dir        string
		files                    []string
		clientCA, client, peerCA string
	}{
		{
			"kubeadm", kubeadm,
			[]string{"ca.crt", "peer.crt", "peer.key", "healthcheck-client.crt", "healthcheck-client.key", "server.crt", "server.key"},
			"ca.crt", "healthcheck-client.crt", "ca.crt",
		},
		{"kubeadm", kubeadm, []string{"ca.crt", "peer.crt", "peer.key", "server.crt", "server.key"}, "ca.crt", "server.crt", "ca.crt"},
		{"k3s", strings.Replace(rancher, "%", "k3s", 1), k3sFiles, "server-ca.crt", "client.crt", "peer-ca.crt"},
		{"rke2", strings.Replace(rancher, "%", "rke2", 1), k3sFiles, "server-ca.crt", "client.crt", "peer-ca.crt"},
		{"talos", talos, []string{"ca.crt", "peer.crt", "peer.key", "admin.crt", "admin.key"}, "ca.crt", "admin.crt", "ca.crt"},
	} {
		root := plant(t, c.dir, c.files...)
		got, err := FindPKI(root)
		if err != nil {
			t.Errorf("%s: %v", c.distribution, err)
			continue
		}
		dir := filepath.Join(root, c.dir)
		if got.Distribution != c.distribution || got.Client.CA != filepath.Join(dir, c.clientCA) ||
			got.Client.Cert != filepath.Join(dir, c.client) || got.Peer.CA != filepath.Join(dir, c.peerCA) {
			t.Errorf("%s: got %+v", c.distribution, got)
		}
	}
}

func TestFindPKINamesWhatIsMissing(t *testing.T) {
	for _, c := range []struct{ name, root, want string }{
		{"nothing", t.TempDir(), "system/secrets/etcd"},
		{"no peer key", plant(t, "system/secrets/etcd", "ca.crt", "peer.crt"), "system/secrets/etcd/peer.key"},
		{"no client", plant(t, "etc/kubernetes/pki/etcd", "ca.crt", "peer.crt", "peer.key"), "healthcheck-client.crt"},
	} {
		_, err := FindPKI(c.root)
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want it to name %s", c.name, err, c.want)
		}
	}
}

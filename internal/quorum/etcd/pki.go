package etcd

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
)

// PKI is the certificates of a member as its distribution lays them out.
type PKI struct {
	// Distribution is kubeadm, k3s, rke2 or talos.
	Distribution string
	// Client speaks to client ports.
	Client creds.Files
	// Peer speaks to peer ports as etcd itself does. Its certificate is good
	// for both directions, so agents may serve with it too.
	Peer creds.Files
}

// layout names the files of one distribution; the first set of Client whose
// files are all there is taken.
type layout struct {
	distribution string
	dir          string
	client       []creds.Files
	peer         creds.Files
}

var layouts = []layout{
	{
		// kubernetes.io/docs/setup/best-practices/certificates. The
		// health-check client may have been left out by an external-CA setup;
		// kubeadm issues server.crt for client authentication as well.
		distribution: "kubeadm", dir: "etc/kubernetes/pki/etcd",
		client: []creds.Files{
			{CA: "ca.crt", Cert: "healthcheck-client.crt", Key: "healthcheck-client.key"},
			{CA: "ca.crt", Cert: "server.crt", Key: "server.key"},
		},
		peer: creds.Files{CA: "ca.crt", Cert: "peer.crt", Key: "peer.key"},
	},
	k3sLayout("k3s", "var/lib/rancher/k3s/server/tls/etcd"),
	k3sLayout("rke2", "var/lib/rancher/rke2/server/tls/etcd"),
	{
		distribution: "talos", dir: "system/secrets/etcd",
		client: []creds.Files{{CA: "ca.crt", Cert: "admin.crt", Key: "admin.key"}},
		peer:   creds.Files{CA: "ca.crt", Cert: "peer.crt", Key: "peer.key"},
	},
}

// k3sLayout is the layout that RKE2 inherited from k3s: one CA for client
// ports, another for peer ports.
func k3sLayout(distribution, dir string) layout {
	return layout{
		distribution: distribution, dir: dir,
		client: []creds.Files{{CA: "server-ca.crt", Cert: "client.crt", Key: "client.key"}},
		peer:   creds.Files{CA: "peer-ca.crt", Cert: "peer-server-client.crt", Key: "peer-server-client.key"},
	}
}

// FindPKI looks for the certificates of the member on this machine where the
// known distributions keep them, below root ("/" outside tests). The error
// names every directory looked at, or the file that an existing one lacks, and
// wraps fs.ErrNotExist.
func FindPKI(root string) (PKI, error) {
	dirs := make([]string, 0, len(layouts))
	for _, l := range layouts {
		dir := filepath.Join(root, l.dir)
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return l.find(dir)
		}
		dirs = append(dirs, dir)
	}
	return PKI{}, fmt.Errorf("find etcd certificates: %w: looked in %s", fs.ErrNotExist, strings.Join(dirs, ", "))
}

func (l layout) find(dir string) (PKI, error) {
	found := PKI{Distribution: l.distribution, Peer: below(dir, l.peer)}
	if err := present(found.Peer); err != nil {
		return PKI{}, fmt.Errorf("find etcd certificates of %s: %w", l.distribution, err)
	}
	var first error
	for _, c := range l.client {
		found.Client = below(dir, c)
		err := present(found.Client)
		if err == nil {
			return found, nil
		}
		if first == nil {
			first = err
		}
	}
	return PKI{}, fmt.Errorf("find etcd certificates of %s: %w", l.distribution, first)
}

func below(dir string, f creds.Files) creds.Files {
	return creds.Files{CA: filepath.Join(dir, f.CA), Cert: filepath.Join(dir, f.Cert), Key: filepath.Join(dir, f.Key)}
}

// present reports the first of the files that cannot be found. Whether they
// can be read and used is for creds to say, when they are opened.
func present(f creds.Files) error {
	for _, path := range []string{f.CA, f.Cert, f.Key} {
		if _, err := os.Stat(path); err != nil {
			return err
		}
	}
	return nil
}

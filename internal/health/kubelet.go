package health

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-ha/holdfast/internal/base/creds"
)

// Credentials are what a node's kubelet shows to apiservers. Files rotate in
// place; creds.Source follows them.
type Credentials struct {
	// Distribution says whose layout was found: "k3s", "rke2", "kubeadm or talos".
	Distribution string
	Files        creds.Files
}

// ErrNoKubelet is wrapped when no kubelet's credentials were found at all.
var ErrNoKubelet = errors.New("no kubelet credentials found")

// kubelets are where distributions keep them. A k3s or RKE2 node has no other;
// kubeadm and Talos keep the certificate and its key in one file, which is a
// link to the newest.
var kubelets = []Credentials{
	{"k3s", creds.Files{
		CA:   "/var/lib/rancher/k3s/agent/server-ca.crt",
		Cert: "/var/lib/rancher/k3s/agent/client-kubelet.crt", Key: "/var/lib/rancher/k3s/agent/client-kubelet.key",
	}},
	{"rke2", creds.Files{
		CA:   "/var/lib/rancher/rke2/agent/server-ca.crt",
		Cert: "/var/lib/rancher/rke2/agent/client-kubelet.crt", Key: "/var/lib/rancher/rke2/agent/client-kubelet.key",
	}},
	{"kubeadm or talos", creds.Files{
		CA:   "/etc/kubernetes/pki/ca.crt",
		Cert: "/var/lib/kubelet/pki/kubelet-client-current.pem", Key: "/var/lib/kubelet/pki/kubelet-client-current.pem",
	}},
}

// FindKubelet looks for the kubelet's client certificate and the cluster's CA
// below root ("/", or where a container sees the node's files). Where several
// layouts stand, the first whole one of k3s, RKE2, kubeadm and Talos wins. The
// error wraps ErrNoKubelet if there is none, and names the file that is
// missing or unreadable if there is part of one.
func FindKubelet(root string) (Credentials, error) {
	var partly error
	for _, k := range kubelets {
		k.Files = under(root, k.Files)
		if _, err := os.Lstat(k.Files.Cert); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		err := k.check(root)
		if err == nil {
			return k, nil
		}
		if partly == nil {
			partly = fmt.Errorf("kubelet of %s: %w", k.Distribution, err)
		}
	}
	if partly != nil {
		return Credentials{}, partly
	}
	return Credentials{}, fmt.Errorf("%w below %s (looked where kubeadm, k3s, RKE2 and Talos keep them); give ca, cert and key", ErrNoKubelet, root)
}

func under(root string, f creds.Files) creds.Files {
	return creds.Files{CA: filepath.Join(root, f.CA), Cert: filepath.Join(root, f.Cert), Key: filepath.Join(root, f.Key)}
}

func (k Credentials) check(root string) error {
	_, err := creds.Open(k.Files)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// In a container the link may lead to where only the node has something.
	target, notLink := os.Readlink(k.Files.Cert)
	if notLink == nil && filepath.IsAbs(target) && filepath.Clean(root) != "/" {
		return fmt.Errorf("certificate %s: is a link to %s, which is not there; mount that directory under its own path", k.Files.Cert, target)
	}
	return err
}

package kubeapi

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/base/file"
)

// ServiceAccountDir is where the kubelet puts a pod's service account.
const ServiceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// ErrNotInCluster is wrapped by InCluster outside a pod with a service account.
var ErrNotInCluster = errors.New("not in a pod with a service account")

// InCluster reads the service account of the pod that this process runs in.
// The token file is read again at each request: the kubelet replaces it.
func InCluster() (Config, error) { return inCluster(ServiceAccountDir, os.Getenv) }

func inCluster(dir string, env func(string) string) (Config, error) {
	host, port := env("KUBERNETES_SERVICE_HOST"), env("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return Config{}, fmt.Errorf("%w: KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set; give a kubeconfig", ErrNotInCluster)
	}
	config, err := serviceAccount(dir)
	if err != nil {
		return Config{}, err
	}
	config.Server = "https://" + net.JoinHostPort(host, port)
	return config, nil
}

// serviceAccount reads what the kubelet mounted into a pod; it names no server.
func serviceAccount(dir string) (Config, error) {
	token := filepath.Join(dir, "token")
	if _, err := os.Stat(token); err != nil {
		return Config{}, fmt.Errorf("%w: %w; set automountServiceAccountToken or give a kubeconfig", ErrNotInCluster, err)
	}
	namespace, _ := file.Read(filepath.Join(dir, "namespace"), 1<<10)
	return Config{
		CAFile:    filepath.Join(dir, "ca.crt"),
		TokenFile: token,
		Namespace: strings.TrimSpace(string(namespace)),
	}, nil
}

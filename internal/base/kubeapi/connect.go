package kubeapi

import (
	"context"
	"fmt"
	"net"
	"slices"
)

// Connector returns a function for Follower.Connect that reads the
// configuration at each call: from the kubeconfig file when a path is given,
// else from the pod's service account. So a file that appears, is rewritten or
// mended takes effect at the next attempt. dial may be nil; else it leads to any
// API server of the cluster (Config.Dial, Config.AnyServer).
func Connector(kubeconfig, kubecontext string, dial func(ctx context.Context, network, address string) (net.Conn, error)) func() (*Client, error) {
	return func() (*Client, error) {
		config, err := Find(kubeconfig, kubecontext)
		if err != nil {
			return nil, err
		}
		config.Dial, config.AnyServer = dial, dial != nil
		return New(config)
	}
}

// Find reads the kubeconfig file when a path is given, else the pod's service
// account; the latter's absence wraps ErrNotInCluster.
func Find(kubeconfig, kubecontext string) (Config, error) {
	if kubeconfig == "" {
		return InCluster()
	}
	return ReadKubeconfig(kubeconfig, kubecontext)
}

// FindServers is Find with the servers given: the credentials' own server is
// not asked, and a certificate for ClusterName is as good as one for the host
// of a server. Without servers it is Find.
func FindServers(kubeconfig, kubecontext string, servers []string) (config Config, err error) {
	switch {
	case len(servers) == 0:
		return Find(kubeconfig, kubecontext)
	case kubeconfig == "":
		config, err = serviceAccount(ServiceAccountDir)
	default:
		config, err = ReadKubeconfig(kubeconfig, kubecontext)
	}
	if err != nil {
		return Config{}, err
	}
	config.Server, config.Servers, config.AnyServer = servers[0], slices.Clone(servers), true
	for i, each := range config.servers() {
		if _, err := each.base(); err != nil {
			return Config{}, fmt.Errorf("servers[%d]: %w", i, err)
		}
	}
	return config, nil
}

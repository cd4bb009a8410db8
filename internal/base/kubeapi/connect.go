package kubeapi

import (
	"context"
	"net"
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

package lab

import (
	"context"
	"path/filepath"
)

const (
	// Where kube-proxies serve, each on its node's loopback.
	kubeProxyHealthz = "127.0.0.1:10256"
	kubeProxyMetrics = "127.0.0.1:10249"
)

// KubeProxy is the kube-proxy of a node, in its nftables mode.
type KubeProxy struct {
	program
}

// kubeProxyConfig leaves conntrack alone: its table is the machine's. The
// periods of synchronisation are upstream's.
func kubeProxyConfig(node, kubeconfig string) map[string]any {
	return map[string]any{
		"apiVersion":         "kubeproxy.config.k8s.io/v1alpha1",
		"kind":               "KubeProxyConfiguration",
		"mode":               "nftables",
		"hostnameOverride":   node,
		"bindAddress":        "0.0.0.0",
		"clientConnection":   map[string]any{"kubeconfig": kubeconfig},
		"clusterCIDR":        PodCIDR.String(),
		"healthzBindAddress": kubeProxyHealthz,
		"metricsBindAddress": kubeProxyMetrics,
		"oomScoreAdj":        0,
		"conntrack": map[string]any{
			"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
		},
	}
}

func newKubeProxy(n *Node, m *machine, dir, kubeconfig string) (*KubeProxy, error) {
	binary, err := n.lab.kubernetesPeer("kube-proxy")
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "kube-proxy.yaml")
	if err := writeYAML(config, kubeProxyConfig(n.name, kubeconfig)); err != nil {
		return nil, err
	}
	p := &KubeProxy{}
	p.program = program{node: n, name: "kube-proxy-" + n.name, by: m.inside, argv: []string{binary, "--config=" + config}}
	return p, nil
}

// Start starts the kube-proxy unless it runs, and returns when it has written
// the rules of the Services that it knows.
func (p *KubeProxy) Start(ctx context.Context) error {
	if err := p.Launch(ctx); err != nil {
		return err
	}
	return p.Wait(ctx)
}

// Wait returns when the running kube-proxy is healthy, or has ended.
func (p *KubeProxy) Wait(ctx context.Context) error {
	return p.await(ctx, "kube-proxy", func() error { return p.Healthy(ctx) })
}

// Healthy asks /healthz; nil says that it answered 200.
func (p *KubeProxy) Healthy(ctx context.Context) error {
	return p.node.healthy(ctx, "http://"+kubeProxyHealthz+"/healthz")
}

// Stop ends the kube-proxy in order, Kill at once. Its rules stay.
func (p *KubeProxy) Stop(ctx context.Context) error { return p.end(ctx, agentGrace) }
func (p *KubeProxy) Kill(ctx context.Context) error { return p.end(ctx, 0) }

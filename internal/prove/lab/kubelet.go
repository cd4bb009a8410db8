package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	// KubeletPort is where a kubelet serves the apiserver, on every address;
	// kubeletHealthz is on the loopback. Both are upstream's.
	KubeletPort    = 10250
	kubeletHealthz = "http://127.0.0.1:10248/healthz"
	// witnessTaint keeps workload off the nodes of a witness site.
	witnessTaint = "node-role.kubernetes.io/control-plane"
)

// Kubelet is the kubelet of a node.
type Kubelet struct {
	program
	manifests string
}

// kubeletConfig holds what differs from kubeadm's defaults. The timers by
// which a node is found to have failed (nodeStatusUpdateFrequency 10 s,
// nodeLeaseDurationSeconds 40 s) are upstream's.
func kubeletConfig(dir, cgroup, clientCA string, witness bool) map[string]any {
	conf := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": clientCA},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"port":                     KubeletPort,
		"healthzBindAddress":       "127.0.0.1",
		"healthzPort":              10248,
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"staticPodPath":            filepath.Join(dir, "manifests"),
		"fileCheckFrequency":       "2s",
		"podLogsDir":               "/var/log/pods",
		"volumePluginDir":          filepath.Join(dir, "kubelet", "volume-plugins"),
		"resolvConf":               filepath.Join(dir, "resolv.conf"),
		// Only with a tree of its own does it put containers below cgroupRoot.
		"cgroupDriver":           "cgroupfs",
		"cgroupRoot":             cgroup,
		"cgroupsPerQOS":          true,
		"enforceNodeAllocatable": []string{},
		"failCgroupV1":           false,
		"failSwapOn":             false,
		"oomScoreAdj":            0,
		// How full the machine is, is not the lab's affair.
		"evictionHard": map[string]any{
			"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
		},
		"imageGCHighThresholdPercent":   100,
		"localStorageCapacityIsolation": false,
	}
	if witness {
		conf["registerWithTaints"] = []map[string]any{{"key": witnessTaint, "effect": "NoSchedule"}}
	}
	return conf
}

// newKubelet writes the configuration of a node's kubelet.
func newKubelet(n *Node, m *machine, dir, kubeconfig, clientCA string) (*Kubelet, error) {
	binary, err := n.lab.kubernetesPeer("kubelet")
	if err != nil {
		return nil, err
	}
	cgroup, err := n.cgroupRoot()
	if err != nil {
		return nil, err
	}
	if err := makeCgroup(cgroup); err != nil {
		return nil, err
	}
	site, _ := n.lab.plan.site(n.site)
	k := &Kubelet{manifests: filepath.Join(dir, "manifests")}
	if err := os.MkdirAll(k.manifests, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of static pods: %w", err)
	}
	// The host's may lead to a file that the machine does not see.
	if err := os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte("# no resolver\n"), 0o644); err != nil {
		return nil, fmt.Errorf("write resolv.conf: %w", err)
	}
	config := filepath.Join(dir, "kubelet.yaml")
	if err := writeYAML(config, kubeletConfig(dir, cgroup, clientCA, site.Witness)); err != nil {
		return nil, err
	}
	k.program = program{node: n, name: "kubelet-" + n.name, by: m.inside, argv: []string{
		binary,
		"--config=" + config,
		"--kubeconfig=" + kubeconfig,
		"--hostname-override=" + n.name,
		"--node-ip=" + n.ip4.String(),
		"--node-labels=topology.kubernetes.io/zone=" + site.Zone,
		"--root-dir=" + filepath.Join(dir, "kubelet"),
		"--cert-dir=" + filepath.Join(dir, "kubelet", "pki"),
	}}
	return k, nil
}

func writeYAML(path string, v any) error {
	data, err := yaml.Marshal(v)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

// Manifests is the directory of static pods: a manifest put into it runs
// within 2 s, one that is removed ends.
func (k *Kubelet) Manifests() string { return k.manifests }

// Start starts the kubelet unless it runs, and returns when it is healthy. The
// node may not be ready yet.
func (k *Kubelet) Start(ctx context.Context) error {
	if err := k.Launch(ctx); err != nil {
		return err
	}
	return k.Wait(ctx)
}

// Wait returns when the running kubelet is healthy, or has ended.
func (k *Kubelet) Wait(ctx context.Context) error {
	return k.await(ctx, "kubelet", func() error { return k.Healthy(ctx) })
}

// Healthy asks /healthz; nil says that it answered 200.
func (k *Kubelet) Healthy(ctx context.Context) error { return k.node.healthy(ctx, kubeletHealthz) }

// Stop ends the kubelet in order, Kill at once. Its containers go on.
func (k *Kubelet) Stop(ctx context.Context) error { return k.end(ctx, agentGrace) }
func (k *Kubelet) Kill(ctx context.Context) error { return k.end(ctx, 0) }

// agentGrace is how long a kubelet or kube-proxy may take to stop.
const agentGrace = 5 * time.Second

package lab

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestNodeFiles compares what the programs of a node read with golden files.
func TestNodeFiles(t *testing.T) {
	inJSON := func(v any) string {
		data, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		return string(data) + "\n"
	}
	inYAML := func(v any) string {
		data, err := yaml.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, text := range map[string]string{
		"node-containerd.toml":       containerdText("/lab/a1", "overlayfs", true),
		"node-kubelet.yaml":          inYAML(kubeletConfig("/lab/a1", "/holdfast/1-2/default-1/a1", "/pki/ca.crt", false)),
		"node-kubelet-witness.yaml":  inYAML(kubeletConfig("/lab/c1", "/holdfast/1-2/default-1/c1", "/pki/ca.crt", true)),
		"node-kube-proxy.yaml":       inYAML(kubeProxyConfig("a1", "/pki/kube-proxy.conf")),
		"node-cni.conflist":          fmt.Sprintf(cniConfig, podMTU, "10.244.1.0/24"),
		"node-masquerade.nft":        masquerade,
		"node-pod.json":              inJSON(PodSpec{Name: "echo", Node: "a1", Port: 8080, Labels: map[string]string{"app": "echo"}}.object("a")),
		"node-pod-of-node.json":      inJSON(PodSpec{Name: "look", Node: "a1", HostNetwork: true, Argv: []string{podPath, "pause"}}.object("a")),
		"node-overlay-two-nodes.txt": overlayText(t, Spec{Sites: []Site{{Name: "a", Nodes: 2}, {Name: "b", Nodes: 1}}}),
	} {
		golden(t, name, text)
	}
}

func overlayText(t *testing.T, spec Spec) string {
	t.Helper()
	nets, err := newPlan(spec).overlay()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, n := range nets {
		fmt.Fprintf(&b, "%s at %s: pods %s, device %s %s\n", n.node.name, n.node.ip4, n.pods, n.device, n.mac)
	}
	return b.String()
}

func TestOverlayIsBounded(t *testing.T) {
	p := newPlan(Spec{Sites: []Site{{Name: "a", Nodes: 200}, {Name: "b", Nodes: 56}}})
	if _, err := p.overlay(); err == nil || !strings.Contains(err.Error(), "at most 255") {
		t.Errorf("256 nodes: %v", err)
	}
}

func TestSandboxNetwork(t *testing.T) {
	const sandbox = `{"annotations": {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-uid": "u1"},
		"linux": {"namespaces": [{"type": "pid"}, {"type": "network", "path": "/run/netns/cni-1"}]}}`
	for _, tt := range []struct{ config, uid, want string }{
		{sandbox, "u1", "/run/netns/cni-1"},
		{sandbox, "u2", ""},
		{strings.Replace(sandbox, `"sandbox"`, `"container"`, 1), "u1", ""},
		{strings.Replace(sandbox, `"network"`, `"uts"`, 1), "u1", ""},
		{`{"annotations": 1}`, "u1", ""},
		{"", "", ""},
	} {
		if got := sandboxNetwork([]byte(tt.config), tt.uid); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.config, got, tt.want)
		}
	}
}

// FuzzSandboxNetwork wants no path from what is no JSON.
func FuzzSandboxNetwork(f *testing.F) {
	f.Add([]byte(`{"annotations": {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-uid": "u"}, "linux": {"namespaces": [{"type": "network", "path": "/x"}]}}`))
	f.Add([]byte(`{"linux": {"namespaces": [{"type": "network", "path": "/x"}]}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if path := sandboxNetwork(data, "u"); path != "" && !json.Valid(data) {
			t.Errorf("%q from %s", path, data)
		}
	})
}

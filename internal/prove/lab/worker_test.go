package lab

import (
	"os"
	"testing"
	"time"
)

// requireKubernetes skips where a peer was not built, and fails in CI.
func requireKubernetes(t *testing.T) {
	t.Helper()
	requireAPIServer(t)
	for _, peer := range []string{kubeletPeer, kubeProxyPeer, podPeer} {
		_, err := findPeer(peer)
		switch {
		case err == nil:
		case os.Getenv("CI") == "true":
			t.Fatal(err)
		default:
			t.Skip(err)
		}
	}
}

func TestNodes(t *testing.T) {
	requireKubernetes(t)
	spec := mustDefault(t, "lan")
	spec.APIServers = true
	l := startLab(t, spec)
	ctx := deadline(t, 3*time.Minute)
	if err := l.StartEtcd(ctx); err != nil {
		t.Fatal(err)
	}
	if err := l.StartAPIServers(ctx); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := l.startNodes(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("three nodes are ready after %v", time.Since(began).Round(time.Millisecond))
}

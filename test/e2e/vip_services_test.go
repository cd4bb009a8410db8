package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestVIPServices has real kube-proxies serve what our agents answer for.
func TestVIPServices(t *testing.T) {
	nightly(t)
	b := startOutward(t)
	for _, n := range b.nodes {
		b.run(n)
	}
	b.pod("web-1", "web", b.nodes[1])
	b.cluster.step("a Service gets an address, and a client outside is served", b.firstOne)
	b.cluster.step("the agent that answers is killed", b.survivesKill)
	b.cluster.step("policy Local: the address is where the pod is", b.followsPod)
	b.cluster.step("a malformed request is said", b.saysMalformed)
	b.cluster.step("two Services share an address", b.shares)
	b.cluster.step("a Service that is deleted frees its address", b.frees)
	b.cluster.step("the printed DaemonSet is taken", b.takesManifest)
}

func (b *outward) firstOne() {
	b.expose("web", "Cluster", 80, nil)
	b.awaitAddress("web", firstService)
	b.awaitServed(firstService, 80, 20*time.Second, func(s served) error { return nil })
	b.holder(firstService)
}

func (b *outward) survivesKill() {
	was := b.holder(firstService)
	b.kill(was)
	begun := time.Now()
	b.until("another node has the address", 10*time.Second, func() error {
		all := b.on(firstService)
		if len(all) != 1 || all[0] == was {
			return fmt.Errorf("nodes that have it: %v", all)
		}
		return nil
	})
	b.awaitServed(firstService, 80, 10*time.Second, func(served) error { return nil })
	b.t.Logf("served by another %s after SIGKILL", time.Since(begun).Round(10*time.Millisecond))
	b.run(was)
	b.until("the agent is back", 20*time.Second, func() error {
		_, err := b.status(was)
		return err
	})
}

func (b *outward) followsPod() {
	one := b.pod("local-1", "local", b.nodes[1])
	b.expose("local", "Local", 80, nil)
	const address = "10.77.1.201"
	b.awaitAddress("local", address)
	b.awaitServed(address, 80, 20*time.Second, b.fromOutside)
	if got := b.holder(address); got != b.nodes[1] {
		b.t.Fatalf("%s has the address, and the pod is on %s", got, b.nodes[1])
	}
	b.pod("local-2", "local", b.nodes[2])
	if err := one.Remove(b.within(30 * time.Second)); err != nil {
		b.t.Fatal(err)
	}
	b.until("the address follows the pod", 20*time.Second, func() error {
		if all := b.on(address); !slices.Equal(all, b.nodes[2:3]) {
			return fmt.Errorf("nodes that have it: %v", all)
		}
		return nil
	})
	b.awaitServed(address, 80, 10*time.Second, func(s served) error {
		if s.Pod != "local-2" {
			return errSame
		}
		return b.fromOutside(s)
	})
}

func (b *outward) saysMalformed() {
	b.expose("bad", "Cluster", 80, map[string]string{"holdfast.dev/addresses": `["10.77.1.205"`})
	b.event("bad", "AddressMalformed", "JSON list of strings")
	b.mustKubectl("annotate", "--overwrite", "service", "bad", `holdfast.dev/addresses=["10.77.1.205"]`)
	b.awaitAddress("bad", "10.77.1.205")
}

func (b *outward) shares() {
	share := map[string]string{"holdfast.dev/share": "one", "holdfast.dev/addresses": "10.77.1.206"}
	b.expose("share-a", "Cluster", 80, share)
	b.expose("share-b", "Cluster", 81, share)
	b.awaitAddress("share-a", "10.77.1.206")
	b.awaitAddress("share-b", "10.77.1.206")
	b.expose("share-c", "Cluster", 81, share)
	b.event("share-c", "AddressInUse", "81/TCP")
	b.mustKubectl("patch", "service", "share-a", "-p", `{"spec":{"selector":{"app":"web"}}}`)
	b.mustKubectl("patch", "service", "share-b", "-p", `{"spec":{"selector":{"app":"web"}}}`)
	for _, port := range []int{80, 81} {
		b.awaitServed("10.77.1.206", port, 20*time.Second, func(served) error { return nil })
	}
}

func (b *outward) frees() {
	b.mustKubectl("delete", "service", "local")
	b.until("nobody has the address", 10*time.Second, func() error {
		if all := b.on("10.77.1.201"); len(all) > 0 {
			return fmt.Errorf("nodes that have it: %v", all)
		}
		return nil
	})
	b.pod("next-1", "next", b.nodes[0])
	b.expose("next", "Cluster", 80, nil)
	b.awaitAddress("next", "10.77.1.201")
	b.awaitServed("10.77.1.201", 80, 20*time.Second, func(served) error { return nil })
}

// takesManifest has the apiserver judge what is printed for users.
func (b *outward) takesManifest() {
	path := filepath.Join(b.lab.Dir(), "daemonset.yaml")
	text := printedVIP(b.t, "vip", "manifest", "daemonset", "--services", "--pool", servicePool, "--image", productImage)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.mustKubectl("apply", "--dry-run=server", "-f", path)
}

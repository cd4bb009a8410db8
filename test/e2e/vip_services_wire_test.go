package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	stdslices "slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/holdfast-ha/holdfast/internal/address/vip"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

func listen(at string) (net.Listener, error) { return net.Listen("tcp", at) }

// contextDone wakes who waits for changes when a request ends.
func contextDone(r *http.Request, o *objects) func() bool {
	return context.AfterFunc(r.Context(), func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.changed.Broadcast()
	})
}

// servedPool begins with the address that the client asks.
const servedPool = "192.0.2.100-192.0.2.119"

// startServices runs our agent on a station, for Services whose first address is
// the one that the client asks.
func (w *wire) startServices(i int, kubeconfig, extra string) {
	w.t.Helper()
	path := filepath.Join(w.dir, fmt.Sprintf("vip-%d.yaml", i))
	text := fmt.Sprintf(`
services:
  kubernetes: {kubeconfig: %s}
  node: node-%d
  interface: %s
  pools: [{name: default, addresses: [%s, "2001:db8::100-2001:db8::1ff"]}]
%s
control: %s
telemetry: {listen: %s:9389}
`, kubeconfig, i, segment.Interface, cmp.Or(w.pool, servedPool), extra, w.socket(i), w.segment.Station(i).Four)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	w.launch(i, []string{asAgent + "=1"}, "/proc/self/exe", "vip", "run", "--config", path)
}

// servicesStatus is what the agent of a station says of Services.
func (w *wire) servicesStatus(i int) *vip.ServicesStatus {
	var s vip.Status
	err := w.segment.Station(i).Do(func() error {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("%s:9389", w.segment.Station(i).Four), time.Second)
		if err != nil {
			return err
		}
		client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}}
		resp, err := client.Get("http://agent/status")
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		return json.NewDecoder(resp.Body).Decode(&s)
	})
	if err != nil {
		return nil
	}
	return s.Services
}

// exposed is a Service of type LoadBalancer.
func exposed(name, policy string, annotations map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": name, "namespace": "default", "annotations": annotations},
		"spec": map[string]any{
			"type": "LoadBalancer", "externalTrafficPolicy": policy, "selector": map[string]any{"app": name}, "ipFamilies": []any{"IPv4"},
			"ipFamilyPolicy": "SingleStack", "ports": []any{map[string]any{"protocol": "TCP", "port": 80}},
		},
	}
}

// endpointsOn is a slice of a Service with ready endpoints on nodes.
func endpointsOn(service string, nodes ...int) map[string]any {
	endpoints := []any{}
	for _, n := range nodes {
		endpoints = append(endpoints, map[string]any{"addresses": []any{fmt.Sprintf("10.0.0.%d", n)}, "nodeName": fmt.Sprintf("node-%d", n), "conditions": map[string]any{"ready": true}})
	}
	return map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": endpoints,
		"metadata": map[string]any{"name": service + "-1", "namespace": "default", "labels": map[string]any{"kubernetes.io/service-name": service}},
	}
}

const (
	wireServices = "/api/v1/namespaces/default/services/"
	wireSlices   = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/"
	wireLeases   = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
)

// published is three agents, and a Service whose address the client asks.
func published(t *testing.T, policy string, nodes ...int) (*wire, *objects) {
	t.Helper()
	w, o := newWire(t, 3), newObjects()
	kubeconfig := w.serve(o)
	o.put(wireServices+"web", exposed("web", policy, nil))
	if len(nodes) > 0 {
		o.put(wireSlices+"web-1", endpointsOn("web", nodes...))
	}
	for i := 1; i <= 3; i++ {
		w.startServices(i, kubeconfig, "")
	}
	w.await("the Service has its address", 20*time.Second, func() bool { return o.status(t, "web") == held.String() })
	return w, o
}

// TestVIPServicesOnWire has agents answer for Services, with nothing behind them but
// an API of objects.
func TestVIPServicesOnWire(t *testing.T) {
	nightly(t)
	w, o := published(t, "Cluster")
	holder := w.awaitOne()

	// A malformed request is said on the Service, and leaves it where it is.
	o.put(wireServices+"bad", exposed("bad", "Cluster", map[string]any{"holdfast.dev/addresses": `["192.0.2.101"`}))
	w.await("an Event", 10*time.Second, func() bool {
		return stdslices.ContainsFunc(o.under("/api/v1/events"), func(e map[string]any) bool {
			return e["reason"] == "AddressMalformed" && e["involvedObject"].(map[string]any)["name"] == "bad" && e["type"] == "Warning"
		})
	})
	o.put(wireServices+"bad", exposed("bad", "Cluster", map[string]any{"holdfast.dev/addresses": `["192.0.2.105"]`}))
	w.await("the address that is asked for", 10*time.Second, func() bool { return o.status(t, "bad") == "192.0.2.105" })

	// Both families, each with an election of its own.
	both := exposed("both", "Cluster", nil)
	both["spec"].(map[string]any)["ipFamilies"], both["spec"].(map[string]any)["ipFamilyPolicy"] = []any{"IPv6", "IPv4"}, "RequireDualStack"
	o.put(wireServices+"both", both)
	w.await("both families have an address", 10*time.Second, func() bool { return o.status(t, "both") == "2001:db8::100, 192.0.2.101" })
	w.await("both are answered for", 10*time.Second, func() bool {
		active := map[string]int{}
		for i := 1; i <= 3; i++ {
			if s := w.servicesStatus(i); s != nil {
				for _, a := range s.Addresses {
					if a.State == "active" {
						active[a.Address]++
					}
				}
			}
		}
		return active["2001:db8::100"] == 1 && active["192.0.2.101"] == 1
	})
	o.remove(wireServices + "both")

	// Everybody knows who answers for what.
	w.await("all say who answers", 10*time.Second, func() bool {
		for i := 1; i <= 3; i++ {
			s := w.servicesStatus(i)
			if s == nil || len(s.Addresses) != 2 || s.Addresses[0].Holder != fmt.Sprintf("node-%d", holder) || s.Allocator == "" {
				return false
			}
		}
		return true
	})

	// Nothing is written to Services at rest.
	before, renewals := len(o.written("/api/v1/services")), len(o.written(wireLeases))
	w.await("some renewals", 20*time.Second, func() bool { return len(o.written(wireLeases)) > renewals+12 })
	if now := len(o.written("/api/v1/services")); now != before {
		t.Errorf("%d writes to Services at rest", now-before)
	}

	// The address is given up with its Service.
	o.remove(wireServices + "web")
	w.await("nobody has the address", 10*time.Second, func() bool { return !w.on(1) && !w.on(2) && !w.on(3) })
}

// written are the changes of a collection so far.
func (o *objects) written(path string) (all []revision) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.log {
		if collection(c.path) == path {
			all = append(all, c)
		}
	}
	return all
}

// TestVIPServicesHolderDies has the agent that answers killed, and another takes over
// as it would after a silent machine.
func TestVIPServicesHolderDies(t *testing.T) {
	nightly(t)
	w, _ := published(t, "Cluster")
	holder := w.awaitOne()
	flushed := time.Now()
	w.flush(holder)
	w.expect("rules flushed", w.client.Since(flushed), 20*time.Millisecond+slack/4, 0)
	for range 3 {
		dead := w.awaitOne()
		begun := time.Now()
		w.kill(dead, syscall.SIGKILL)
		w.awaitAnother(dead)
		w.expect("SIGKILL", w.client.Since(begun), 3*time.Second+slack, 0)
		w.startServices(dead, filepath.Join(w.dir, "kubeconfig"), "")
		w.await("the agent is back", 10*time.Second, func() bool { return w.servicesStatus(dead) != nil })
	}
}

// TestVIPServicesLocal has the address follow the endpoints, without a gap, and stay
// where there are none anywhere.
func TestVIPServicesLocal(t *testing.T) {
	nightly(t)
	w, o := published(t, "Local", 2)
	w.awaitHolder(2)
	for _, next := range []int{3, 1, 2} {
		begun := time.Now()
		o.put(wireSlices+"web-1", endpointsOn("web", next))
		w.awaitHolder(next)
		w.expect(fmt.Sprintf("the endpoint goes to %d", next), w.client.Since(begun), slack, 50*time.Millisecond)
	}
	// A Node that load balancers are to leave alone hands over, and nobody notices.
	o.put(wireSlices+"web-1", endpointsOn("web", 1, 2))
	begun := time.Now()
	excluded := map[string]any{"name": "node-2", "labels": map[string]any{"node.kubernetes.io/exclude-from-external-load-balancers": ""}}
	o.put("/api/v1/nodes/node-2", map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": excluded})
	w.awaitHolder(1)
	w.expect("the Node is excluded", w.client.Since(begun), slack, 50*time.Millisecond)

	begun = time.Now()
	o.put(wireSlices+"web-1", endpointsOn("web"))
	w.await("everybody knows", 10*time.Second, func() bool {
		for i := 1; i <= 3; i++ {
			if s := w.servicesStatus(i); s == nil || !strings.Contains(s.Addresses[0].Bar, "no ready endpoint") {
				return false
			}
		}
		return true
	})
	w.awaitHolder(1)
	w.expect("no endpoint anywhere", w.client.Since(begun), slack, 0)
}

// TestVIPServicesWithoutAPI has the API go, and nobody who asks the address notices.
func TestVIPServicesWithoutAPI(t *testing.T) {
	nightly(t)
	w, o := published(t, "Cluster")
	holder := w.awaitOne()
	begun := time.Now()
	o.silence(true)
	w.await("the agents have been without the API for two leases", 15*time.Second, func() bool {
		s := w.servicesStatus(holder)
		return time.Since(begun) > 6*time.Second && s != nil && !s.Addresses[0].Contact
	})
	w.awaitHolder(holder)
	o.silence(false)
	w.await("the API is back", 20*time.Second, func() bool {
		s := w.servicesStatus(holder)
		return s != nil && s.Addresses[0].Contact
	})
	w.awaitHolder(holder)
	w.expect("no API for 6 s", w.client.Since(begun), slack, 0)
}

// TestVIPServicesStranger has a station that is none of ours use the address: it is
// left alone, and the Service says who it is.
func TestVIPServicesStranger(t *testing.T) {
	nightly(t)
	w, o := newWire(t, 4), newObjects()
	stranger := w.segment.Station(4)
	configure(t, stranger, segment.Interface, held.String()+"/32")
	kubeconfig := w.serve(o)
	o.put(wireServices+"web", exposed("web", "Cluster", nil))
	for i := 1; i <= 3; i++ {
		w.startServices(i, kubeconfig, "")
	}
	w.await("an Event names the station", 30*time.Second, func() bool {
		return stdslices.ContainsFunc(o.under("/api/v1/events"), func(e map[string]any) bool {
			return e["reason"] == "AddressInUse" && strings.Contains(e["message"].(string), stranger.MAC.String())
		})
	})
	for i := 1; i <= 3; i++ {
		if w.on(i) {
			t.Errorf("machine %d has taken it", i)
		}
	}
	eth, err := stranger.Netlink.LinkByName(segment.Interface)
	if err != nil {
		t.Fatal(err)
	}
	a, err := netlink.ParseAddr(held.String() + "/32")
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.Netlink.AddrDel(eth, a); err != nil {
		t.Fatal(err)
	}
	w.await("one of ours answers", 20*time.Second, func() bool {
		n := 0
		for i := 1; i <= 3; i++ {
			if w.on(i) {
				n++
			}
		}
		return n == 1
	})
}

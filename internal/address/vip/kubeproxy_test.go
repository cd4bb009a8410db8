package vip

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// healthPort is kube-proxy's answer for a Service, at the loopback.
func healthPort(t *testing.T, code *atomic.Int32) int32 {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(int(code.Load()))
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	n, _ := strconv.Atoi(port)
	return int32(n)
}

func TestKubeProxyIsAwaited(t *testing.T) {
	woken := make(chan struct{}, 10)
	// Nothing listens at the first address, as with kube-proxy's other modes.
	p := newProxied(netip.MustParseAddr("127.0.0.9"), func() { woken <- struct{}{} })
	t.Cleanup(p.close)
	var code atomic.Int32
	code.Store(http.StatusServiceUnavailable)
	ports := []int32{healthPort(t, &code)}
	asked := time.Now()
	for time.Since(asked) < proxyPatience+4*proxyEvery { // longer than a port without anybody is waited for
		if p.bar(ports) == "" {
			t.Fatal("it says that it has no endpoint, and is not waited for")
		}
		select {
		case <-woken:
			t.Fatal("woken for nothing")
		case <-time.After(proxyEvery):
		}
	}
	code.Store(http.StatusOK)
	select {
	case <-woken:
	case <-time.After(10 * time.Second):
		t.Fatal("its good answer is not heard")
	}
	if bar := p.bar(ports); bar != "" {
		t.Errorf("after its good answer: %s", bar)
	}
	// Its answer counts for the way up alone: endpoints tell of the way down sooner.
	code.Store(http.StatusServiceUnavailable)
	if bar := p.bar(ports); bar != "" {
		t.Errorf("a later answer counts: %s", bar)
	}
	p.forget(ports)
	if p.bar(ports) == "" {
		t.Error("the next endpoint is taken for the one before")
	}
	p.keep(nil)
	if len(p.ports) > 0 {
		t.Error("a Service that is gone is still asked about")
	}
	if bar := p.bar(nil); bar != "" {
		t.Errorf("without ports: %s", bar)
	}
}

func TestNobodyInKubeProxysPlace(t *testing.T) {
	woken := make(chan struct{}, 1)
	p := newProxied(netip.MustParseAddr("127.0.0.1"), func() { woken <- struct{}{} })
	t.Cleanup(p.close)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := int32(l.Addr().(*net.TCPAddr).Port)
	_ = l.Close()
	begun := time.Now()
	if p.bar([]int32{port}) == "" {
		t.Error("not waited for at all")
	}
	select {
	case <-woken:
	case <-time.After(10 * proxyPatience):
		t.Fatal("waited for in vain")
	}
	if took := time.Since(begun); took < proxyPatience || p.bar([]int32{port}) != "" {
		t.Errorf("given up after %s", took)
	}
}

package vip

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

// faultProxy stands in a machine's way whose kube-proxy would drop what comes.
const faultProxy = "kube-proxy"

const (
	// proxyEvery is how often kube-proxy is asked while it is waited for: it has
	// rules in force a second after the last ones at the latest
	// (--nftables-min-sync-period and its like), or at once.
	proxyEvery = 50 * time.Millisecond
	// proxyPatience is how long a port is waited for on which nobody answers: what
	// stands in for kube-proxy may not have it.
	proxyPatience = 2 * time.Second
)

// proxied tells whether this machine's kube-proxy has the endpoints of Services of
// policy Local in force. An endpoint is ready in the API up to a second before
// that, and kube-proxy drops meanwhile what comes for it (measured: 0.14 s of
// connections lost as a machine was announced again). It says so itself, at
// spec.healthCheckNodePort, once its rules are written.
type proxied struct {
	addresses []netip.Addr // where it may listen
	nudge     func()
	client    *http.Client

	mu    sync.Mutex
	ports map[int32]*portAsked
}

// portAsked is one port, from when this machine has a ready endpoint.
type portAsked struct {
	good bool
	stop context.CancelFunc
}

// newProxied asks at the loopback and at a machine's own address: kube-proxy in the
// mode nftables listens at the latter alone.
func newProxied(own netip.Addr, nudge func()) *proxied {
	return &proxied{
		addresses: []netip.Addr{own, netip.MustParseAddr("127.0.0.1")}, nudge: nudge, ports: map[int32]*portAsked{},
		client: &http.Client{Timeout: proxyPatience, Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

// bar is what stands in the way of a machine with ready endpoints of the Services
// that have these ports, "" if nothing does.
func (p *proxied) bar(ports []int32) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	bar := ""
	for _, port := range ports {
		if p.ports[port] == nil {
			p.ports[port] = p.ask(port)
		}
		if !p.ports[port].good {
			bar = "kube-proxy does not pass packets on to the endpoint yet"
		}
	}
	return bar
}

// forget is for a machine without endpoints of them: with the next one kube-proxy is
// asked anew.
func (p *proxied) forget(ports []int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, port := range ports {
		if a := p.ports[port]; a != nil {
			a.stop()
			delete(p.ports, port)
		}
	}
}

// keep forgets all ports but those of Services that there still are.
func (p *proxied) keep(ports []int32) {
	p.mu.Lock()
	var gone []int32
	for port := range p.ports {
		if !slices.Contains(ports, port) {
			gone = append(gone, port)
		}
	}
	p.mu.Unlock()
	p.forget(gone)
}

// close ends what is being asked.
func (p *proxied) close() { p.keep(nil) }

// ask waits for a port's good answer. The lock is held.
func (p *proxied) ask(port int32) *portAsked {
	ctx, stop := context.WithCancel(context.Background())
	a := &portAsked{stop: stop}
	go func() {
		defer stop()
		tick := time.NewTicker(proxyEvery)
		defer tick.Stop()
		for begun := time.Now(); ; {
			good, answered := p.answers(ctx, port)
			if answered {
				begun = time.Now()
			}
			if good || time.Since(begun) > proxyPatience {
				p.mu.Lock()
				a.good = true
				p.mu.Unlock()
				p.nudge()
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return a
}

// answers asks at every address; answered says that any is listened at.
func (p *proxied) answers(ctx context.Context, port int32) (good, answered bool) {
	for _, a := range slices.Compact(p.addresses) {
		url := "http://" + net.JoinHostPort(a.String(), strconv.Itoa(int(port))) + "/healthz"
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			continue
		}
		resp, err := p.client.Do(req)
		if err != nil {
			continue
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4096))
		_ = resp.Body.Close()
		answered = true
		if resp.StatusCode == http.StatusOK {
			return true, true
		}
	}
	return false, answered
}

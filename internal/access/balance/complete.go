package balance

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/balance/choose"
	"github.com/holdfast-ha/holdfast/internal/access/balance/source"
	"github.com/holdfast-ha/holdfast/internal/health"
)

// complete fills in defaults, finds credentials below root ("/" outside
// tests), and checks what a person wrote. It opens no socket.
func (s *Settings) complete(root string) error {
	if _, ok := profileTimers(s.Profile); !ok {
		return fmt.Errorf("profile: %q; write default, seed or anchors", s.Profile)
	}
	if len(s.Frontends) == 0 {
		return errors.New("frontends: none; write at least one with its backends, or give --backend HOST:PORT")
	}
	if err := within("drain", s.Drain, time.Hour); err != nil {
		return err
	}
	if err := s.Telemetry.Check(); err != nil {
		return err
	}
	for i := range s.Frontends {
		f := &s.Frontends[i]
		f.fill(s)
		if strings.ContainsAny(f.Name, "/\n") {
			return fmt.Errorf("frontends[%d].name: %q; leave out slashes, which stand before routes", i, f.Name)
		}
		if err := f.complete(root, s.Profile); err != nil {
			return fmt.Errorf("frontends[%d] (%s): %w", i, f.Name, err)
		}
	}
	return first(errors.Join(s.checkOverlap(), s.checkLoops()))
}

// checkLoops refuses a static backend that is a frontend of this process. One
// that another source names is left out when it comes.
func (s *Settings) checkLoops() error {
	for _, f := range s.Frontends {
		for _, pool := range f.pools() {
			for i, b := range pool.Backends.Static {
				for _, own := range s.Frontends {
					for _, a := range own.Listen {
						if isSelf(b.Address, a) {
							return fmt.Errorf("frontend %s: backends.static[%d]: %s is where frontend %s listens: a loop; name the apiserver's own address", f.Name, i, b.Address, own.Name)
						}
					}
				}
			}
		}
	}
	return nil
}

// isSelf reports whether a backend is certainly a listen address: the same, or
// the loopback under a wildcard. Another machine may have the same port.
func isSelf(backend, listen string) bool {
	if backend == listen {
		return true
	}
	ap, err := netip.ParseAddrPort(backend)
	if err != nil || !ap.Addr().IsLoopback() {
		return false
	}
	return overlap(backend, listen)
}

// checkOverlap refuses two frontends with one name or one address.
func (s *Settings) checkOverlap() error {
	names, addresses := map[string]bool{}, map[string]string{}
	for _, f := range s.Frontends {
		if names[f.Name] {
			return fmt.Errorf("frontends: two are named %q; give each a name of its own", f.Name)
		}
		names[f.Name] = true
		for _, a := range f.Listen {
			for taken, by := range addresses {
				if overlap(a, taken) {
					return fmt.Errorf("frontends: %s (of %s) and %s (of %s) overlap; give each a port of its own", a, f.Name, taken, by)
				}
			}
			addresses[a] = f.Name
		}
	}
	return nil
}

// overlap reports whether two listen addresses cannot both be had.
func overlap(a, b string) bool {
	if a == b {
		return true
	}
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB {
		return false
	}
	return hostA == hostB || covers(hostA, hostB) || covers(hostB, hostA)
}

// covers reports whether listening on host takes the port of other, too.
func covers(host, other string) bool {
	switch host {
	case "", "::":
		return true
	case "0.0.0.0":
		return !strings.Contains(other, ":")
	}
	return false
}

func (f *Frontend) complete(root, profile string) error {
	for _, a := range f.Listen {
		if err := checkListen(a); err != nil {
			return err
		}
	}
	if len(f.ProxyFrom) > 0 && !f.AcceptProxy {
		return errors.New("proxyFrom: set without acceptProxy; set acceptProxy: true, or leave both out")
	}
	for _, bound := range []struct {
		field       string
		value, most int
	}{
		{"maxConns", f.MaxConns, 1 << 20}, {"maxPerClient", f.MaxPerClient, 1 << 20}, {"queue.length", f.Queue.Length, 1 << 20}, {"keepAlive.count", f.KeepAlive.Count, 20},
	} {
		if bound.value < 0 || bound.value > bound.most {
			return fmt.Errorf("%s: %d; write a number from 0 to %d", bound.field, bound.value, bound.most)
		}
	}
	err := errors.Join(
		within("queue.timeout", f.Queue.Timeout, time.Minute), within("connect.budget", f.Connect.Budget, time.Minute),
		within("connect.stagger", f.Connect.Stagger, f.Connect.Budget), within("connect.firstByte", f.Connect.FirstByte, f.Connect.Budget),
		within("helloTimeout", f.HelloTimeout, time.Minute), within("idleTimeout", f.IdleTimeout, 7*24*time.Hour), within("maxAge", f.MaxAge, 30*24*time.Hour),
		within("keepAlive.idle", f.KeepAlive.Idle, 2*time.Hour), within("keepAlive.interval", f.KeepAlive.Interval, time.Hour), within("userTimeout", f.UserTimeout, time.Hour),
	)
	if err = first(err); err != nil {
		return err
	}
	if err := f.Pool.complete(root, profile); err != nil {
		return err
	}
	return f.completeRoutes(root, profile)
}

func (f *Frontend) completeRoutes(root, profile string) error {
	taken := map[string]bool{}
	for i := range f.Routes {
		r := &f.Routes[i]
		if len(r.Names) == 0 {
			return fmt.Errorf("routes[%d].names: none; write the server names of this route", i)
		}
		for k, n := range r.Names {
			n = strings.ToLower(n)
			if n == "" || taken[n] || strings.ContainsAny(strings.TrimPrefix(n, "*."), "*:/ ") {
				return fmt.Errorf("routes[%d].names: %q is given twice or is no name; write api.example.org or *.example.org", i, n)
			}
			taken[n], r.Names[k] = true, n
		}
		if err := r.Pool.complete(root, profile); err != nil {
			return fmt.Errorf("routes[%d]: %w", i, err)
		}
	}
	return nil
}

func checkListen(a string) error {
	if path, ok := strings.CutPrefix(a, "unix:"); ok {
		if !strings.HasPrefix(path, "/") || len(path) > 107 {
			return fmt.Errorf("listen: %q; write unix:/PATH of at most 107 bytes", a)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(a)
	n, portErr := strconv.Atoi(port)
	if err != nil || portErr != nil || n < 0 || n > 65535 {
		return fmt.Errorf("listen: %q; write IP:PORT, [IPv6]:PORT, :PORT or unix:/PATH", a)
	}
	if host == "" {
		return nil
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return fmt.Errorf("listen: %q: %q is not an IP address; names are not looked up here", a, host)
	}
	return nil
}

func (p *Pool) complete(root, profile string) error {
	if !slices.Contains([]choose.Policy{choose.LeastConn, choose.RoundRobin, choose.Source}, p.Policy) {
		return fmt.Errorf("policy: %q; write leastconn, roundrobin or source", p.Policy)
	}
	for field, c := range map[string]Cause{"onFail": p.OnFail, "onShutdown": p.OnShutdown, "onRemove": p.OnRemove} {
		if c != Reset && c != Drain && c != Keep {
			return fmt.Errorf("%s: %q; write reset, drain or keep", field, c)
		}
	}
	if p.Rebalance.PerSecond < 0 || p.Rebalance.PerSecond > 1000 {
		return fmt.Errorf("rebalance.perSecond: %d; write a number from 0 (never) to 1000", p.Rebalance.PerSecond)
	}
	err := first(errors.Join(within("slowStart", p.SlowStart, time.Hour), within("drainTimeout", p.DrainTimeout, time.Hour), within("spread", p.Spread, time.Minute)))
	if err != nil {
		return err
	}
	if err := p.Backends.complete(); err != nil {
		return fmt.Errorf("backends.%w", err)
	}
	if err := p.Check.complete(root, profile); err != nil {
		return fmt.Errorf("check.%w", err)
	}
	for i, b := range p.Backends.Static {
		if strings.HasPrefix(b.Address, "unix:") && (p.Check.Kind == "https" || p.Check.Kind == "etcd") && p.Check.ServerName == "" {
			return fmt.Errorf("backends.static[%d]: %s has no name that a certificate could be valid for; set check.serverName", i, b.Address)
		}
	}
	return nil
}

func (b *Backends) complete() error {
	if len(b.Static) == 0 && b.EndpointSlices == nil && len(b.DNS) == 0 && b.File == "" {
		return errors.New("static: nothing here and no other source; write - address: HOST:PORT, or one of endpointSlices, dns, file")
	}
	if b.EndpointSlices != nil && len(b.Static) == 0 && len(b.DNS) == 0 && b.File == "" {
		return errors.New("endpointSlices: alone it finds nobody to ask; name at least one apiserver under static, dns or file as well")
	}
	if b.SendProxy < 0 || b.SendProxy > 2 {
		return fmt.Errorf("sendProxy: %d; write 0 (none), 1 or 2", b.SendProxy)
	}
	seen := map[string]bool{}
	for i, s := range b.Static {
		if err := checkBackend(s); err != nil {
			return fmt.Errorf("static[%d]: %w", i, err)
		}
		if seen[s.Address] {
			return fmt.Errorf("static[%d].address: %q is there twice; keep one", i, s.Address)
		}
		seen[s.Address] = true
	}
	for i := range b.DNS {
		d := &b.DNS[i]
		if d.Name == "" || (!d.SRV && (d.Port < 1 || d.Port > 65535)) {
			return fmt.Errorf("dns[%d]: name %q, port %d; write a name, and a port from 1 to 65535 unless srv is true", i, d.Name, d.Port)
		}
		for _, other := range b.DNS[:i] {
			if other.Name == d.Name && other.SRV == d.SRV && other.Port == d.Port {
				return fmt.Errorf("dns[%d]: %s is there twice; keep one", i, d.Name)
			}
		}
		orElse(&d.Every, 10*time.Second)
		if d.Every < time.Second {
			return fmt.Errorf("dns[%d].every: %s; write at least 1s", i, d.Every)
		}
	}
	return nil
}

func checkBackend(s StaticBackend) error {
	if s.Weight < 0 || s.Weight > 1000 || s.MaxConns < 0 {
		return fmt.Errorf("weight: %d, maxConns %d; write a weight from 0 (counts as 1) to 1000, and 0 (no limit) or more connections", s.Weight, s.MaxConns)
	}
	if _, _, err := source.ParseAddress(s.Address); err != nil {
		return err
	}
	return nil
}

// kinds of checks.
var kinds = []string{"https", "http", "tcp", "etcd"}

func (c *Check) complete(root, profile string) error {
	if !slices.Contains(kinds, c.Kind) {
		return fmt.Errorf("kind: %q; write https, http, tcp or etcd", c.Kind)
	}
	if (c.Cert == "") != (c.Key == "") {
		return errors.New("cert, key: set both or neither")
	}
	if c.Anonymous && (c.Cert != "" || c.TokenFile != "") {
		return errors.New("anonymous: true beside cert or tokenFile; leave one of them out")
	}
	if c.Period < 100*time.Millisecond || c.Period > time.Minute {
		return fmt.Errorf("period: %s; write a time from 100ms to 1m", c.Period)
	}
	if err := c.timers(profile).Validate(); err != nil {
		return err
	}
	if c.Kind != "https" && c.Kind != "etcd" {
		return nil
	}
	if c.CA != "" {
		return nil
	}
	if c.Kind == "etcd" {
		return errors.New("ca: not set; an etcd check needs ca, cert and key of the client port")
	}
	return c.findKubelet(root)
}

// findKubelet completes the check with what the kubelet of this node uses.
func (c *Check) findKubelet(root string) error {
	found, err := health.FindKubelet(root)
	if err != nil {
		return fmt.Errorf("ca: not set, and %w", err)
	}
	c.CA = found.Files.CA
	if c.Cert == "" && c.TokenFile == "" && !c.Anonymous {
		c.Cert, c.Key = found.Files.Cert, found.Files.Key
	}
	return nil
}

// within refuses a time that nobody means: a unit mistaken, a digit too many.
func within(field string, d, most time.Duration) error {
	if d < 0 || d > most {
		return fmt.Errorf("%s: %s; write a time up to %s, or 0s for the default", field, d, most)
	}
	return nil
}

// first keeps the first of joined errors: one mistake, one line.
func first(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()[0]
	}
	return err
}

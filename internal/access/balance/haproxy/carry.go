package haproxy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// kubeadmCA is where "verify none" is replaced by verification.
const kubeadmCA = "/etc/kubernetes/pki/ca.crt"

// slow is a rhythm of checks worth a word: kubelets give a request 10 s.
const slow = 10 * time.Second

// frontend is what is written.
type frontend struct {
	name                  string
	listen                []string
	freebind, acceptProxy bool
	policy                string
	maxConns              int
	queue, budget, idle   time.Duration
	source                netip.Addr
	statics               []static
	sendProxy             int
	check                 check
	slowStart             time.Duration
	onFail                string
}

type static struct {
	address          string
	weight, maxConns int
	backup           bool
}

type check struct {
	kind, path, serverName, ca, crt string
	period, timeout                 time.Duration
	rise, fall                      int
}

// carry joins frontends with their backends.
func (r *reader) carry() []frontend {
	used := map[string]bool{}
	var all []frontend
	for _, p := range r.all {
		switch {
		case p.http || p.kind == "backend":
		case p.kind == "frontend":
			back := slices.IndexFunc(r.all, func(b proxy) bool { return b.name == p.use && b.kind != "frontend" })
			if p.use == "" || back < 0 || r.all[back].http {
				r.notes.add(p.number, "frontend "+p.name, "no TCP backend to send clients to; left out")
				break
			}
			used[p.use] = true
			all = append(all, r.join(p, r.all[back])...)
		default:
			all = append(all, r.join(p, p)...)
		}
	}
	for _, p := range r.all {
		if p.kind == "backend" && !p.http && !used[p.name] {
			r.notes.add(p.number, "backend "+p.name, "no frontend sends clients there; left out")
		}
	}
	return distinct(all)
}

// distinct gives each frontend a name of its own: a frontend and a listen may
// share one in HAProxy.
func distinct(all []frontend) []frontend {
	seen := map[string]bool{}
	for i := range all {
		name := all[i].name
		for n := 2; seen[all[i].name]; n++ {
			all[i].name = fmt.Sprintf("%s-%d", name, n)
		}
		seen[all[i].name] = true
	}
	return all
}

// join makes one frontend of p's listeners and back's servers, or two when
// some listeners expect a PROXY header and others do not; none when either
// side is empty.
func (r *reader) join(p, back proxy) []frontend {
	f := frontend{
		name: cmp.Or(p.name, "haproxy"), policy: back.balance, maxConns: p.maxConns, source: back.source,
		queue: r.time(back, "queue", 0, time.Minute), budget: r.time(back, "connect", 500*time.Millisecond, time.Minute),
		idle: r.idle(p, back),
	}
	binds := r.listeners(p, back)
	servers := r.withPorts(back, binds)
	if len(binds) == 0 || len(servers) == 0 {
		r.notes.add(p.number, p.kind+" "+p.name, "%d listeners and %d servers can be carried over; left out", len(binds), len(servers))
		return nil
	}
	r.backends(&f, servers)
	f.check = r.checkOf(back, servers)
	var all []frontend
	for _, proxied := range []bool{false, true} {
		one := f
		one.acceptProxy = proxied
		for _, b := range binds {
			if b.proxied == proxied {
				one.listen = append(one.listen, b.address)
				one.freebind = one.freebind || b.transparent
			}
		}
		if one.listen = withoutCovered(one.listen); len(one.listen) > 0 {
			all = append(all, one)
		}
	}
	return all
}

// withoutCovered drops duplicates, and 0.0.0.0 where [::] has the same port and
// takes IPv4 as well.
func withoutCovered(listen []string) []string {
	var kept []string
	for _, a := range listen {
		port, wild := strings.CutPrefix(a, "0.0.0.0:")
		if !slices.Contains(kept, a) && !(wild && slices.Contains(listen, "[::]:"+port)) {
			kept = append(kept, a)
		}
	}
	return kept
}

// time brings a timeout into the bounds of the settings; 0 is not given, or
// for ever.
func (r *reader) time(p proxy, which string, low, high time.Duration) time.Duration {
	d := p.timeouts[which]
	if d == 0 {
		return 0
	}
	d, err := bounded(d, low, high)
	if err != nil {
		r.notes.add(p.number, "timeout "+which, "%v", err)
	}
	return d
}

// idle is timeout tunnel, or the shorter one of both sides.
func (r *reader) idle(p, back proxy) time.Duration {
	const most = 7 * 24 * time.Hour
	if d := r.time(back, "tunnel", 0, most); d > 0 {
		return d
	}
	client, server := r.time(p, "client", 0, most), r.time(back, "server", 0, most)
	if client == 0 || server == 0 {
		return max(client, server)
	}
	return min(client, server)
}

// listeners leaves out those that terminate TLS before servers without it.
func (r *reader) listeners(p, back proxy) []bind {
	plain := slices.IndexFunc(back.servers, func(s server) bool { return !s.tls })
	passes := slices.IndexFunc(p.binds, func(b bind) bool { return !b.tls })
	var kept []bind
	for _, b := range p.binds {
		switch {
		case b.tls && plain >= 0:
			r.notes.add(b.number, "bind: ssl", "TLS is not terminated here, and server %s does not speak it; left out", back.servers[plain].name)
			continue
		case b.tls:
			r.notes.add(b.number, "bind: ssl", "TLS is passed through: clients see the certificates of the servers")
		}
		kept = append(kept, b)
	}
	for _, s := range back.servers {
		if s.tls && passes >= 0 {
			r.notes.add(s.number, "server: ssl", "TLS is passed through, not begun here: clients of line %d must speak it themselves", p.binds[passes].number)
		}
	}
	return kept
}

// withPorts gives servers without port that of the only listener.
func (r *reader) withPorts(back proxy, binds []bind) []server {
	ports := map[string]bool{}
	for _, b := range binds {
		ports[b.address[strings.LastIndexByte(b.address, ':')+1:]] = true
	}
	var kept []server
	for _, s := range back.servers {
		if s.port == "" && len(ports) == 1 {
			for s.port = range ports {
			}
		}
		address, err := join(s.address, s.port)
		if err != nil {
			r.notes.add(s.number, "server "+clip(s.name), "%v; left out", err)
			continue
		}
		s.address = address
		if slices.ContainsFunc(kept, func(k server) bool { return k.address == address }) {
			r.notes.add(s.number, "server "+clip(s.name), "%s is there twice; the first is taken", address)
			continue
		}
		kept = append(kept, s)
	}
	return kept
}

// backends fills in what the servers say.
func (r *reader) backends(f *frontend, servers []server) {
	f.sendProxy, f.onFail = servers[0].sendProxy, "keep"
	resets := 0
	for _, s := range servers {
		f.statics = append(f.statics, static{s.address, s.weight, s.maxConns, s.backup})
		if s.sendProxy != f.sendProxy {
			r.notes.add(s.number, "server "+clip(s.name), "the PROXY header is sent to all backends or none; sendProxy: %d is taken", f.sendProxy)
		}
		if s.slowStart > 0 && f.slowStart > 0 && s.slowStart != f.slowStart {
			r.notes.add(s.number, "server: slowstart", "all backends have one; %s is taken", short(f.slowStart))
		}
		f.slowStart = cmp.Or(f.slowStart, s.slowStart)
		if s.resetWhenDown {
			resets++
		}
	}
	switch {
	case resets == len(servers):
		f.onFail = "reset"
	case resets > 0:
		f.onFail = "reset"
		r.notes.add(servers[0].number, "server: on-marked-down", "set for %d of %d servers; onFail: reset is taken for all", resets, len(servers))
	default:
		r.notes.add(servers[0].number, "server: no on-marked-down", "connections to a failed server are left to hang there, so onFail: keep; reset would end them")
	}
}

// checkOf makes the one check of all backends.
func (r *reader) checkOf(p proxy, servers []server) check {
	i := max(slices.IndexFunc(servers, func(s server) bool { return s.checked }), 0)
	s := servers[i]
	r.uneven(servers, i)
	c := check{kind: "tcp", period: s.probe.inter, timeout: cmp.Or(p.timeouts["check"], s.probe.inter), rise: s.probe.rise, fall: s.probe.fall}
	var err error
	if c.timeout, err = bounded(c.timeout, time.Millisecond, time.Minute); err != nil {
		r.notes.add(p.number, "timeout check", "%v", err)
	}
	if patience := time.Duration(c.fall) * max(c.period, c.timeout); s.checked && patience > slow {
		r.notes.add(s.number, "server: inter, fall, timeout check", "taken as they are: a frozen server is noticed after about %s; without period, timeout, rise and fall it is after 2s", short(patience))
	}
	secure := s.probe.tls || p.check.tls
	switch {
	case !s.checked:
		r.notes.add(s.number, "server: no check", "every backend is checked; check: {kind: tcp} is taken")
	case !p.check.on:
		r.notes.add(s.number, "server: check without option httpchk", "a connect does not tell a frozen or unready server; for apiservers take check: {kind: https, path: /readyz}")
	case secure:
		c.kind, c.path = "https", p.check.path
		c.serverName, c.ca, c.crt = cmp.Or(p.check.name, s.probe.tlsName), s.probe.ca, s.probe.crt
		if s.noCA || c.ca == "" {
			c.ca = kubeadmCA
			r.notes.add(s.number, "server: verify none", "the server is always verified; check.ca is kubeadm's %s, give the right file", kubeadmCA)
		}
	default:
		c.kind, c.path = "http", p.check.path
	}
	return c
}

// uneven notes servers that are checked otherwise than the i-th.
func (r *reader) uneven(servers []server, i int) {
	for _, s := range servers {
		switch {
		case !s.checked && servers[i].checked:
			r.notes.add(s.number, "server "+clip(s.name), "has no check there; every backend is checked here")
		case s.probe != servers[i].probe:
			r.notes.add(s.number, "server "+clip(s.name), "is checked otherwise than %s; all backends have one check, that of %s", clip(servers[i].name), clip(servers[i].name))
		}
	}
}

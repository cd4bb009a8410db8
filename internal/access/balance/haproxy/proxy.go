package haproxy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// proxy is what one section says on top of its defaults. It is copied as a
// value: clone keeps the copies apart.
type proxy struct {
	kind, name string
	number     int // line of the head
	http       bool

	binds    []bind
	use      string // the backend of a frontend
	balance  string
	maxConns int
	timeouts map[string]time.Duration
	source   netip.Addr

	check   httpCheck
	base    server // default-server
	servers []server
}

// bind is one address that is listened on.
type bind struct {
	number      int
	address     string
	proxied     bool // accept-proxy
	transparent bool
	tls         bool
}

// httpCheck is option httpchk with its rules.
type httpCheck struct {
	on   bool
	path string
	tls  bool
	name string // of the server in TLS
}

func newProxy() proxy {
	return proxy{balance: "roundrobin", timeouts: map[string]time.Duration{}, base: newServer()}
}

func (p proxy) clone() proxy {
	p.binds, p.servers = slices.Clone(p.binds), slices.Clone(p.servers)
	p.timeouts = maps.Clone(p.timeouts)
	return p
}

// reader reads the sections of a file one after the other.
type reader struct {
	file   string
	notes  notes
	caBase string
	crBase string

	paced map[string]bool // parameters told of once

	latest string // name of the defaults in force
	unset  map[string]proxy
	all    []proxy
}

func newReader(file string) *reader {
	return &reader{file: file, notes: notes{file: file}, paced: map[string]bool{}, unset: map[string]proxy{"": newProxy()}}
}

func (r *reader) read(s section) {
	switch {
	case s.kind == "global":
		for _, l := range s.lines {
			r.global(l)
		}
	case s.kind == "defaults":
		p := r.fill(s)
		// Unnamed ones get a name that no file can give.
		r.latest = s.name
		if s.name == "" {
			r.latest = fmt.Sprintf("defaults of line %d", s.number)
		}
		r.unset[r.latest] = p
	case slices.Contains(proxies, s.kind):
		r.all = append(r.all, r.fill(s))
	default:
		r.notes.add(s.number, s.kind+" "+s.name, "such a section has no equal here; left out with its %d directives", len(s.lines))
	}
}

// fill reads a section on top of the defaults that it names or that are in force.
func (r *reader) fill(s section) proxy {
	from := r.latest
	if s.from != "" {
		from = s.from
	}
	base, ok := r.unset[from]
	if !ok {
		r.notes.add(s.number, s.kind+" "+s.name, "there are no defaults %q; taken without defaults", clip(from))
		base = newProxy()
	}
	if s.kind == "defaults" && s.from == "" {
		base = newProxy()
	}
	p := base.clone()
	p.kind, p.name, p.number = s.kind, s.name, s.number
	for _, l := range s.lines {
		if l.words[0] == "mode" {
			p.http = l.word(1) != "tcp"
		}
	}
	if p.http && s.kind != "defaults" {
		r.notes.add(s.number, s.kind+" "+s.name, "mode http: only TCP is balanced here; left out with its %d directives", len(s.lines))
		return p
	}
	for _, l := range s.lines {
		r.directive(&p, l)
	}
	return p
}

// timeoutsKept are those that matter later.
var timeoutsKept = []string{"connect", "client", "server", "tunnel", "check", "queue"}

func (r *reader) timeout(p *proxy, l line) {
	which := l.word(1)
	if !slices.Contains(timeoutsKept, which) {
		r.notes.add(l.number, "timeout "+which, "%s", because("timeout "+which))
		return
	}
	d, err := duration(l.word(2))
	if err != nil {
		r.notes.add(l.number, "timeout "+which, "%v; left out", err)
		return
	}
	p.timeouts[which] = d
}

// global takes the two directives that the rest depends on.
func (r *reader) global(l line) {
	switch l.words[0] {
	case "ca-base":
		r.caBase = l.word(1)
	case "crt-base":
		r.crBase = l.word(1)
	case "daemon", "master-worker":
		// How it is started is systemd's matter, or the kubelet's.
	default:
		r.notes.add(l.number, "global: "+clip(l.words[0]), "%s", becauseGlobal(l.words[0]))
	}
}

func becauseGlobal(word string) string {
	switch {
	case word == "maxconn":
		return "there is no limit for the whole process; set maxConns of each frontend"
	case word == "log" || strings.HasPrefix(word, "log-"):
		return becauseLog
	case word == "stats":
		return becauseStats
	case word == "user" || word == "group" || word == "chroot" || word == "uid" || word == "gid":
		return "the user is set where the balancer is started: in the systemd unit or the pod"
	}
	return "a setting of HAProxy's process; not needed"
}

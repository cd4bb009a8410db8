package probe

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Path is one way to reach one target, resolved and complete.
type Path struct {
	Name string
	// URL is the target without its kind.
	URL  *url.URL
	Kind Kind
	Mode Mode
	// Secure says whether the path speaks TLS.
	Secure   bool
	TLS      TLS
	Interval time.Duration
	Timeout  time.Duration
	// Slow is the latency beyond which a good sample is slow.
	Slow time.Duration
	// Request is what an HTTP sample sends; complete.
	Request Request
	expect  codeSet
	// Key is the etcd key of the path.
	Key    string
	Labels map[string]string
	// Control says that the path is the one to the prober's own loopback.
	Control bool
}

// address is HOST:PORT with the default port of the scheme filled in.
func (p *Path) address() string {
	port := p.URL.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[p.URL.Scheme]
	}
	return net.JoinHostPort(p.URL.Hostname(), port)
}

// host is the name that a certificate must carry.
func (p *Path) host() string { return or(p.TLS.ServerName, p.URL.Hostname()) }

// limit is how many samples can be in flight: one per tick of the timeout, and
// one for the tick on which the oldest ends.
func (p *Path) limit() int {
	return int((p.Timeout+p.Interval-1)/p.Interval) + 1
}

// kindsOf names the kinds that a scheme knows, the default first.
var kindsOf = map[string][]Kind{
	"https":         {KindHTTP},
	"http":          {KindHTTP},
	"tcp":           {KindConnect, KindEcho},
	"udp":           {KindDatagram},
	"etcd":          {KindGet, KindPut, KindSerializable, KindWatch, KindWrite},
	"etcd+insecure": {KindGet, KindPut, KindSerializable, KindWatch, KindWrite},
	"route":         {KindRoute},
}

// modesOf names the modes that a kind knows. etcd's unary calls have no stream,
// a watch is nothing else, an echo has nothing to send without being asked, and a datagram
// has no connection to keep.
func modesOf(k Kind) []Mode {
	switch k {
	case KindWatch:
		return []Mode{ModeStream}
	case KindRoute:
		return []Mode{ModeNew} // a question of its own each time
	case KindDatagram:
		return []Mode{ModeNew}
	case KindHTTP, KindConnect:
		return []Mode{ModeNew, ModeReused, ModeStream}
	}
	return []Mode{ModeNew, ModeReused}
}

// resolve turns a target into its paths.
func (c *Config) resolve(t *Target) ([]Path, error) {
	u, kinds, err := t.parseURL()
	if err != nil {
		return nil, err
	}
	pairs, err := t.pairs(kinds)
	if err != nil {
		return nil, err
	}
	expect, err := parseCodes(or(t.Expect, "200-399"))
	if err != nil {
		return nil, err
	}
	request, err := t.Request.complete(kinds[0])
	if err != nil {
		return nil, err
	}
	material := c.TLS
	if t.TLS != nil {
		material = *t.TLS
	}
	if err := material.check("tls"); err != nil {
		return nil, err
	}
	paths := make([]Path, 0, len(pairs))
	for _, pair := range pairs {
		p := Path{
			Name: fmt.Sprintf("%s/%s/%s", t.Name, pair.kind, pair.mode),
			URL:  u, Kind: pair.kind, Mode: pair.mode,
			Secure: u.Scheme == "https" || u.Scheme == "etcd", TLS: material,
			Interval: or(t.Interval, c.Interval, DefaultInterval),
			Timeout:  or(t.Timeout, c.Timeout, defaultTimeout(pair.kind, pair.mode)),
			Slow:     or(c.Slow, DefaultSlow),
			Request:  request, expect: expect, Labels: t.Labels,
		}
		p.Key = strings.TrimRight(or(c.Prefix, DefaultPrefix), "/") + "/" + p.Name
		if err := p.checkTimes(); err != nil {
			return nil, err
		}
		paths = append(paths, p)
	}
	return paths, nil
}

func (p *Path) checkTimes() error {
	if p.Interval < time.Millisecond {
		return fmt.Errorf("interval: %v is under 1ms; write a longer one, such as 100ms", p.Interval)
	}
	if p.Timeout < time.Millisecond {
		return fmt.Errorf("timeout: %v is under 1ms; write a longer one, such as 1s", p.Timeout)
	}
	if p.limit() > maxInFlight {
		return fmt.Errorf("timeout: %v at an interval of %v lets %d samples hang at once; shorten it or lengthen the interval (at most %d)",
			p.Timeout, p.Interval, p.limit(), maxInFlight)
	}
	return nil
}

func defaultTimeout(k Kind, m Mode) time.Duration {
	switch {
	case slices.Contains(kindsOf["etcd"], k):
		return DefaultEtcdTimeout
	case k == KindConnect && m != ModeNew:
		return defaultHeldTimeout
	case m == ModeStream:
		return defaultStreamTimeout
	}
	return DefaultTimeout
}

// parseURL returns the URL without its kinds, and the kinds it named.
func (t *Target) parseURL() (*url.URL, []Kind, error) {
	u, err := url.Parse(t.URL)
	if err != nil || u.Host == "" {
		return nil, nil, fmt.Errorf("url: %q is no URL; write scheme://HOST:PORT, such as etcd://10.0.0.1:2379?kind=put", t.URL)
	}
	known, ok := kindsOf[u.Scheme]
	if !ok {
		return nil, nil, fmt.Errorf("url: scheme %q is unknown; use https, http, tcp, udp, etcd, etcd+insecure or route", u.Scheme)
	}
	switch {
	case known[0] == KindRoute:
		if err := t.checkRoute(u.Hostname(), u.Port()+u.Path+u.RawQuery); err != nil {
			return nil, nil, err
		}
	case u.Port() == "" && known[0] != KindHTTP:
		return nil, nil, fmt.Errorf("url: %q has no port; write %s://%s:PORT", t.URL, u.Scheme, u.Hostname())
	}
	kinds := t.Kinds
	if known[0] != KindHTTP {
		named, err := kindsInQuery(u)
		if err != nil {
			return nil, nil, err
		}
		if len(named) > 0 && len(kinds) > 0 {
			return nil, nil, fmt.Errorf("kinds: given in the URL too (%s); keep one of the two", t.URL)
		}
		kinds = append(named, kinds...)
	}
	if len(kinds) == 0 {
		kinds = known[:1]
	}
	for _, k := range kinds {
		if !slices.Contains(known, k) {
			return nil, nil, fmt.Errorf("kinds: %q is unknown to %s; use one of %v", k, u.Scheme, known)
		}
	}
	return u, kinds, nil
}

// kindsInQuery takes the kinds out of u's query, which may hold nothing else:
// the targets of other schemes have no query of their own.
func kindsInQuery(u *url.URL) ([]Kind, error) {
	var kinds []Kind
	for key, values := range u.Query() {
		if key != "kind" {
			return nil, fmt.Errorf("url: parameter %q is unknown; only kind is known here", key)
		}
		for _, v := range values {
			for one := range strings.SplitSeq(v, ",") {
				kinds = append(kinds, Kind(one))
			}
		}
	}
	u.RawQuery = ""
	return kinds, nil
}

type pair struct {
	kind Kind
	mode Mode
}

// pairs combines kinds with modes. Each kind takes the modes it knows; a kind
// or a mode left without a partner is a mistake of the user.
func (t *Target) pairs(kinds []Kind) ([]pair, error) {
	for _, m := range t.Modes {
		if !slices.ContainsFunc(kinds, func(k Kind) bool { return slices.Contains(modesOf(k), m) }) {
			return nil, fmt.Errorf("modes: %q is unknown to kind %v; it knows %v", m, kinds[0], modesOf(kinds[0]))
		}
	}
	var pairs []pair
	for _, k := range kinds {
		modes := t.Modes
		if len(modes) == 0 {
			modes = []Mode{ModeNew, ModeReused}
			if k == KindWatch {
				modes = []Mode{ModeStream}
			}
		}
		before := len(pairs)
		for _, m := range modes {
			if slices.Contains(modesOf(k), m) {
				pairs = append(pairs, pair{k, m})
			}
		}
		if len(pairs) == before {
			return nil, fmt.Errorf("modes: none of %v is known to kind %q; it knows %v", modes, k, modesOf(k))
		}
	}
	return pairs, nil
}

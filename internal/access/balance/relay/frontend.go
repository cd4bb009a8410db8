package relay

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Answer is what a Picker says beside the target.
type Answer int

const (
	// None: no target can be tried now; a client with no attempt under way
	// is refused.
	None Answer = iota
	// Use: connect to the target returned.
	Use
	// Wait: every target that could be tried is at its limit; the client
	// queues. Ask again after a connection has closed or after Engine.Wake.
	Wait
)

// Picker chooses targets. It is called on loops, several at a time: it must be
// safe for that and must not block.
type Picker interface {
	// Pick returns the target to try next for a client (the zero value when
	// the client came by a unix socket). tried holds those that this client's
	// connection was already sent to, whether they failed or are still being
	// tried; pending holds those of tried that have not failed so far. The
	// slices are not to be kept. A target's limit is the Picker's
	// business, read from Active and Connecting; loops that ask at the same
	// instant may exceed it by one each.
	Pick(client netip.AddrPort, tried, pending []*Target) (*Target, Answer)
}

// KeepAlive is how a silent peer is asked whether it is still there
// (tcp(7): TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT).
type KeepAlive struct {
	// Idle is the silence before the first question, Interval the time
	// between questions; both in whole seconds, rounded up.
	Idle, Interval time.Duration
	// Count is the number of unanswered questions that ends a connection.
	Count int
}

// Frontend is what a listener does with its clients. A zero duration or number
// takes the default that stands at the field.
type Frontend struct {
	// Name stands in events, statistics and log lines.
	Name string
	// Picker chooses the target. Required.
	Picker Picker
	// Routes choose another Picker by the server name (SNI) of a TLS client:
	// "api.example" or "*.example" (any name below it). Keys without regard
	// to case. Clients with no matching name go to Picker.
	Routes map[string]Picker
	// Stagger is how long an attempt goes on alone before the next target is
	// tried beside it. Default 200 ms: above the round trip of any WAN link
	// that a cluster spans, below what a person notices.
	Stagger time.Duration
	// Budget is the time for all attempts of one client. Default 10 s, as long
	// as a TLS client of the Go library waits.
	Budget time.Duration
	// FirstByte is how long a target may take to answer a ClientHello before
	// another is tried beside it. Default 1 s: a pause of 700 ms is no fault.
	FirstByte time.Duration
	// HelloTimeout is the time a client has for its PROXY header and, where
	// Routes need it, its ClientHello. Default 10 s.
	HelloTimeout time.Duration
	// IdleTimeout resets a connection without a byte for so long. Default 0:
	// never, because watches are silent.
	IdleTimeout time.Duration
	// QueueTimeout is how long a client waits for a target below its limit.
	// Default 10 s.
	QueueTimeout time.Duration
	// KeepAlive for both sides. Default 15 s, 5 s, 3: a dead peer is noticed
	// after 30 s, as in the usual balancers of apiservers.
	KeepAlive KeepAlive
	// UserTimeout is how long written data may stay unacknowledged, on both
	// sides (TCP_USER_TIMEOUT, RFC 5482). Default 30 s; negative: the kernel's.
	UserTimeout time.Duration
	// AcceptProxy wants a PROXY header (version 1 or 2) before anything else.
	AcceptProxy bool
	// ProxyFrom are the networks that may send one; empty means all.
	ProxyFrom []netip.Prefix
	// MaxConns bounds the clients of the listener; more stay in the kernel's
	// backlog. 0 means no bound but that of descriptors.
	MaxConns int
	// MaxPerClient bounds the connections of one client address. 0: no bound.
	MaxPerClient int
	// QueueLength bounds the clients that wait; 0: nobody waits.
	QueueLength int
	// MaxAge resets connections older than this, give or take a random fifth,
	// once they are quiet. 0: never.
	MaxAge time.Duration
	// SourceAddress is the local address of connections to targets of its
	// family. The zero value lets the kernel choose.
	SourceAddress netip.Addr
}

func (f Frontend) withDefaults() Frontend {
	orDuration := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	orDuration(&f.Stagger, 200*time.Millisecond)
	orDuration(&f.Budget, 10*time.Second)
	orDuration(&f.FirstByte, time.Second)
	orDuration(&f.HelloTimeout, 10*time.Second)
	orDuration(&f.QueueTimeout, 10*time.Second)
	orDuration(&f.KeepAlive.Idle, 15*time.Second)
	orDuration(&f.KeepAlive.Interval, 5*time.Second)
	orDuration(&f.UserTimeout, 30*time.Second)
	if f.KeepAlive.Count == 0 {
		f.KeepAlive.Count = 3
	}
	return f
}

// settings is a Frontend as the loops use it; never changed once made.
type settings struct {
	Frontend
	fallback *route
	exact    map[string]*route
	// below holds wildcard routes by what follows the "*": ".example".
	below map[string]*route
}

// route is a Picker with the clients that wait for it. The queue belongs to
// the name and outlives an Update.
type route struct {
	picker Picker
	queue  *queue
}

// newSettings resolves the routes; queueOf returns the queue of a route by its
// name, "" for the fallback.
func newSettings(f Frontend, queueOf func(string) *queue) *settings {
	f = f.withDefaults()
	f.Routes = maps.Clone(f.Routes)
	f.ProxyFrom = slices.Clone(f.ProxyFrom)
	s := &settings{Frontend: f, fallback: &route{f.Picker, queueOf("")}}
	for name, picker := range f.Routes {
		name = strings.ToLower(name)
		r := &route{picker, queueOf(name)}
		if suffix, ok := strings.CutPrefix(name, "*"); ok {
			put(&s.below, suffix, r)
		} else {
			put(&s.exact, name, r)
		}
	}
	return s
}

func put(m *map[string]*route, key string, r *route) {
	if *m == nil {
		*m = map[string]*route{}
	}
	(*m)[key] = r
}

// route returns the route of a server name: the exact one, else the longest
// wildcard, else the fallback.
func (s *settings) route(name string) *route {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if r := s.exact[name]; r != nil {
		return r
	}
	for len(s.below) > 0 {
		dot := strings.IndexByte(name, '.')
		if dot < 0 {
			break
		}
		if r := s.below[name[dot:]]; r != nil && dot > 0 {
			return r
		}
		name = name[dot+1:]
	}
	return s.fallback
}

// needsHello says whether the ClientHello decides where a client goes.
func (s *settings) needsHello() bool { return len(s.exact)+len(s.below) > 0 }

// mayProxy says whether a peer may send a PROXY header. A unix peer may: who
// reaches the path was let in by its permissions.
func (s *settings) mayProxy(peer netip.Addr) bool {
	if len(s.ProxyFrom) == 0 || !peer.IsValid() {
		return true
	}
	return slices.ContainsFunc(s.ProxyFrom, func(p netip.Prefix) bool { return p.Contains(peer) })
}

package slices

import (
	"context"
	"errors"
	"net"
	"net/netip"
	stdslices "slices"
	"sync"
	"sync/atomic"
	"time"
)

// errOwnUnready is why the own apiserver is not asked for anything.
var errOwnUnready = errors.New("the own apiserver is not ready")

// dialer connects to the API. While the own apiserver is known to be unready
// nothing is asked of it: a frozen one would cost each request its whole
// patience. And connections of before may lead to it through a balancer, so
// those over the loopback end at that moment.
type dialer struct {
	own string // host and port of the own apiserver
	net net.Dialer

	unready atomic.Bool
	mu      sync.Mutex
	others  []string // hosts and ports by which clients reach the own apiserver
	local   map[*tracked]bool
}

func newDialer(own string) *dialer {
	return &dialer{own: own, net: net.Dialer{Timeout: 2 * time.Second}, local: map[*tracked]bool{}}
}

// also names further addresses that are the own apiserver's.
func (d *dialer) also(addresses []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.others = addresses
}

func (d *dialer) isOwn(address string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return address == d.own || stdslices.Contains(d.others, address)
}

// tracked is a connection that may lead to the own apiserver.
type tracked struct {
	net.Conn
	dialer *dialer
}

func (t *tracked) Close() error {
	t.dialer.mu.Lock()
	delete(t.dialer.local, t)
	t.dialer.mu.Unlock()
	return t.Conn.Close()
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	before, own := d.unready.Load(), d.isOwn(address)
	if own && before {
		return nil, errOwnUnready
	}
	conn, err := d.net.DialContext(ctx, network, address)
	if err != nil || !leadsHome(conn, own) {
		return conn, err
	}
	t := &tracked{conn, d}
	if !d.add(t, before) {
		_ = conn.Close()
		return nil, errOwnUnready
	}
	return t, nil
}

// add keeps a connection in mind, unless the own apiserver turned unready while it
// was made: then the sweep of that moment has not seen it.
func (d *dialer) add(t *tracked, before bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unready.Load() && !before {
		return false
	}
	d.local[t] = true
	return true
}

// leadsHome says that a connection may end at the own apiserver.
func leadsHome(conn net.Conn, own bool) bool {
	ap, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	return own || err == nil && ap.Addr().Unmap().IsLoopback()
}

// set states whether the own apiserver is unready; what leads to it ends when
// that begins.
func (d *dialer) set(unready bool) {
	if d.unready.Swap(unready) || !unready {
		return
	}
	d.mu.Lock()
	all := make([]*tracked, 0, len(d.local))
	for t := range d.local {
		all = append(all, t)
	}
	d.mu.Unlock()
	for _, t := range all {
		_ = t.Close()
	}
}

package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// prober measures pairs of nodes and keeps the long-lived connections.
type prober struct {
	seen sightings

	mu    sync.Mutex
	kept  map[[2]string]*session
	flows map[[2]string]net.Conn
	last  uint16 // source port
	stop  chan struct{}
}

func newProber() *prober {
	return &prober{kept: map[[2]string]*session{}, flows: map[[2]string]net.Conn{}, stop: make(chan struct{})}
}

// Probes send from firstPort to lastPort in turn, below the ephemeral ports and
// NodePorts. A port that the kernel picks may be one that conntrack still knows
// from an earlier probe, and the new flow would pass for an old one. They begin
// above the ports of Kubernetes (10248 to 10259): a kubelet cannot listen where
// a probe's connection is in TIME-WAIT.
const firstPort, lastPort = 11_000, 29_999

func (p *prober) nextPort() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last < firstPort || p.last >= lastPort {
		p.last = firstPort - 1
	}
	p.last++
	return int(p.last)
}

// dial connects from a fresh port. One that is taken, by a process of the
// node, is passed over.
func (p *prober) dial(ctx context.Context, x *Node, network, addr string) (net.Conn, error) {
	for {
		port := p.nextPort()
		var local net.Addr = &net.UDPAddr{Port: port}
		if strings.HasPrefix(network, "tcp") {
			local = &net.TCPAddr{Port: port}
		}
		conn, err := x.dial(ctx, network, addr, local)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return conn, err
		}
	}
}

// keepAlive sends on the flows every 10 s, so that conntrack, which forgets
// after 30 s, knows how old they are.
func (p *prober) keepAlive() {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
		p.mu.Lock()
		for _, c := range p.flows {
			_, _ = c.Write([]byte("keepalive"))
		}
		p.mu.Unlock()
	}
}

// open makes sure that the pair has its long-lived connections.
func (p *prober) open(ctx context.Context, x, y *Node) error {
	key := [2]string{x.name, y.name}
	p.mu.Lock()
	kept, flow := p.kept[key], p.flows[key]
	p.mu.Unlock()
	if kept == nil {
		conn, err := p.dial(ctx, x, "tcp4", echoAddr(y.ip4))
		if err != nil {
			return fmt.Errorf("open kept connection: %w", err)
		}
		p.mu.Lock()
		p.kept[key] = newSession(conn)
		p.mu.Unlock()
	}
	if flow == nil {
		conn, err := p.dial(ctx, x, "udp4", echoAddr(y.ip4))
		if err != nil {
			return fmt.Errorf("open flow: %w", err)
		}
		p.mu.Lock()
		p.flows[key] = conn
		p.mu.Unlock()
	}
	return nil
}

// forget closes the kept connection of a pair, so that open makes a new one:
// one that a cut has silenced comes back only at its next retransmission,
// which may be minutes away.
func (p *prober) forget(x, y *Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := [2]string{x.name, y.name}
	if s := p.kept[key]; s != nil {
		_ = s.conn.Close()
		delete(p.kept, key)
	}
}

func (p *prober) close() {
	close(p.stop)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.kept {
		_ = s.conn.Close()
	}
	for _, c := range p.flows {
		_ = c.Close()
	}
}

// measure tries the given kinds from x to y at once, each for at most patience.
func (p *prober) measure(ctx context.Context, x, y *Node, ks []Kind, patience time.Duration) Cell {
	c := Cell{From: x.name, To: y.name, Open: make(map[Kind]bool, len(ks))}
	var mu sync.Mutex
	var g errgroup.Group
	for _, k := range ks {
		g.Go(func() error {
			open, known := p.try(ctx, x, y, k, patience)
			mu.Lock()
			defer mu.Unlock()
			if known {
				c.Open[k] = open
			}
			return nil
		})
	}
	_ = g.Wait() // no probe returns an error: not reaching is a result
	return c
}

// try makes one probe. known is false where there is no telling.
func (p *prober) try(ctx context.Context, x, y *Node, k Kind, patience time.Duration) (open, known bool) {
	if _, _, ok := k.split(); ok {
		return p.port(ctx, x, y, k, patience)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p.mu.Lock()
	kept, flow := p.kept[[2]string{x.name, y.name}], p.flows[[2]string{x.name, y.name}]
	p.mu.Unlock()
	switch k {
	case KindUDP:
		open = p.datagram(ctx, x, echoAddr(y.ip4))
	case KindUDP6:
		open = p.datagram(ctx, x, echoAddr(y.ip6))
	case KindVXLAN:
		open = p.datagram(ctx, x, netip.AddrPortFrom(y.ip4, vxlanPort).String())
	case KindFlow:
		open = flow != nil && p.send(ctx, flow)
	case KindKept:
		open = kept != nil && kept.echo(ctx) > 0
	case KindDial:
		open = p.handshake(ctx, x, echoAddr(y.ip4))
	case KindPing:
		open = p.ping(ctx, x, y.ip4)
	case KindNew:
		if conn, err := p.dial(ctx, x, "tcp4", echoAddr(y.ip4)); err == nil {
			open = newSession(conn).echo(ctx) > 0
			_ = conn.Close()
		}
	}
	return open, true
}

// port tries a port of y that a cut names. Where nobody listens, the lab does
// for the moment: a refusal would look like a reset by the cut. A UDP port
// with a server of its own keeps what it gets, and nothing is known.
func (p *prober) port(ctx context.Context, x, y *Node, k Kind, patience time.Duration) (open, known bool) {
	y.ports.Lock()
	defer y.ports.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	proto, port, _ := k.split()
	addr := netip.AddrPortFrom(y.ip4, port).String()
	if proto == "udp" {
		r := &responder{seen: &p.seen}
		defer r.close()
		if err := y.Do(func() error { return r.listenUDP(y.ip4.String(), port, false) }); err != nil {
			return false, false
		}
		return p.datagram(ctx, x, addr), true
	}
	var l net.Listener
	if err := y.Do(func() (err error) { l, err = net.Listen("tcp4", addr); return err }); err == nil {
		defer func() { _ = l.Close() }()
	}
	conn, err := p.dial(ctx, x, "tcp4", addr)
	if err != nil {
		return false, true
	}
	_ = conn.Close()
	return true, true
}

// datagram sends from a fresh socket and reports whether it arrived.
func (p *prober) datagram(ctx context.Context, x *Node, addr string) bool {
	conn, err := p.dial(ctx, x, "udp", addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	return p.send(ctx, conn)
}

// send repeats a datagram, for links with losses, until it is seen.
func (p *prober) send(ctx context.Context, conn net.Conn) bool {
	n := newNonce()
	seen, stop := p.seen.expect(n)
	defer stop()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		_, _ = conn.Write(n[:])
		select {
		case <-seen:
			return true
		case <-ctx.Done():
			return false
		case <-again.C:
		}
	}
}

// rtt is the least of three round trips over a kept connection, 0 when none
// came back.
func (p *prober) rtt(ctx context.Context, x, y string, patience time.Duration) time.Duration {
	p.mu.Lock()
	s := p.kept[[2]string{x, y}]
	p.mu.Unlock()
	var least time.Duration
	for range 3 {
		if s == nil {
			break
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		took := s.echo(ctx)
		cancel()
		if took > 0 && (least == 0 || took < least) {
			least = took
		}
	}
	return least
}

// session is a connection to an echo server.
type session struct {
	mu   sync.Mutex // one echo at a time
	conn net.Conn
	in   *bufio.Reader
}

func newSession(conn net.Conn) *session { return &session{conn: conn, in: bufio.NewReader(conn)} }

// echo sends a nonce and returns how long it took to come back, 0 when it did
// not. Answers to earlier nonces, which a cut may have held back, are skipped.
func (s *session) echo(ctx context.Context) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	deadline, _ := ctx.Deadline()
	if s.conn.SetDeadline(deadline) != nil {
		return 0
	}
	want, start := newNonce(), time.Now()
	if _, err := s.conn.Write(want[:]); err != nil {
		return 0
	}
	for {
		got, err := s.in.Peek(len(want)) // consumes nothing when it times out
		if err != nil {
			return 0
		}
		found := nonce(got) == want
		_, _ = s.in.Discard(len(want))
		if found {
			return time.Since(start)
		}
	}
}

func echoAddr(ip netip.Addr) string { return netip.AddrPortFrom(ip, echoPort).String() }

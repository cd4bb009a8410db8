package lab

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
)

// echoPort is the echo service of RFC 862, which no cluster uses.
const echoPort = 7

// nonce marks one probe.
type nonce [16]byte

func newNonce() nonce {
	var n nonce
	_, _ = rand.Read(n[:]) // crypto/rand does not fail
	return n
}

// sightings tells the sender of a datagram that it arrived. Responders and
// probers live in one process, so an arrival is seen even where no answer can
// come back.
type sightings struct {
	mu      sync.Mutex
	waiting map[nonce]chan struct{}
}

func (s *sightings) expect(n nonce) (<-chan struct{}, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = map[nonce]chan struct{}{}
	}
	ch := make(chan struct{}, 1)
	s.waiting[n] = ch
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiting, n)
	}
}

func (s *sightings) saw(data []byte) {
	if len(data) != len(nonce{}) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ch := s.waiting[nonce(data)]; ch != nil {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// responder answers probes in one node.
type responder struct {
	seen    *sightings
	closers []io.Closer
	wg      sync.WaitGroup
}

func newResponder(n *Node, seen *sightings) (*responder, error) {
	r := &responder{seen: seen}
	err := n.Do(func() error {
		tcp, err := net.Listen("tcp", fmt.Sprintf("[::]:%d", echoPort))
		if err != nil {
			return err
		}
		r.closers = append(r.closers, tcp)
		r.wg.Go(func() { r.accept(tcp) })
		for _, a := range []string{"0.0.0.0", "::"} {
			if err := r.listenUDP(a, echoPort, true); err != nil {
				return err
			}
		}
		return r.overhear(vxlanPort)
	})
	if err != nil {
		r.close()
		return nil, fmt.Errorf("start responder of %s: %w", n.name, err)
	}
	return r, nil
}

func (r *responder) listenUDP(ip string, port uint16, echo bool) error {
	addr := netip.AddrPortFrom(netip.MustParseAddr(ip), port)
	network := "udp6"
	if addr.Addr().Is4() {
		network = "udp4"
	}
	conn, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return err
	}
	r.closers = append(r.closers, conn)
	r.wg.Go(func() { r.serveUDP(conn, echo) })
	return nil
}

func (r *responder) serveUDP(conn *net.UDPConn, echo bool) {
	buf := make([]byte, 2048)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error about an earlier answer
		}
		r.seen.saw(buf[:n])
		if echo {
			_, _ = conn.WriteToUDPAddrPort(buf[:n], from)
		}
	}
}

func (r *responder) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			_, _ = io.Copy(conn, conn)
		}()
	}
}

func (r *responder) close() {
	for _, c := range r.closers {
		_ = c.Close()
	}
	r.wg.Wait()
}

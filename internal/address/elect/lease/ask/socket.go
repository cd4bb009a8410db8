package ask

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// Socket is one UDP port, on which any number of groups speak. It is safe for
// concurrent use.
type Socket struct {
	conn *net.UDPConn

	mu     sync.Mutex
	groups map[Group]func(b []byte, from netip.AddrPort)
}

// Listen opens the port. An address that is in use is most often that of another
// agent on this node.
func Listen(address netip.AddrPort) (*Socket, error) {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(address))
	if err != nil {
		return nil, fmt.Errorf("listen for questions of peers: %w", err)
	}
	return &Socket{conn: conn, groups: map[Group]func([]byte, netip.AddrPort){}}, nil
}

// Address is where the socket listens.
func (s *Socket) Address() netip.AddrPort {
	return s.conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// Join has deliver called with each datagram for a group, unchecked, from one
// goroutine; b is valid until it returns. Nil ends that.
func (s *Socket) Join(group string, deliver func(b []byte, from netip.AddrPort)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if deliver == nil {
		delete(s.groups, GroupOf(group))
		return
	}
	s.groups[GroupOf(group)] = deliver
}

// Send sends a datagram. What becomes of it nobody knows, so there is no error.
func (s *Socket) Send(b []byte, to netip.AddrPort) {
	_, _ = s.conn.WriteToUDPAddrPort(b, to)
}

// Serve delivers datagrams until ctx ends, and then closes the socket.
func (s *Socket) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
	defer stop()
	b := make([]byte, MaxLength+1)
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(b)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("read questions of peers: %w", err)
		case err != nil:
			continue // of an earlier datagram that could not be delivered
		}
		s.deliver(b[:n], netip.AddrPortFrom(from.Addr().Unmap(), from.Port()))
	}
}

func (s *Socket) deliver(b []byte, from netip.AddrPort) {
	g, err := GroupIn(b)
	if err != nil {
		return
	}
	s.mu.Lock()
	deliver := s.groups[g]
	s.mu.Unlock()
	if deliver != nil {
		deliver(b, from)
	}
}

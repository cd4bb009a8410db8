package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// adverts hears the VRRP of a segment. Where in the interval of the adverts a
// holder falls silent decides up to an interval of the outage; who is compared
// falls silent at the same points of it.
type adverts struct {
	conn *ipv4.PacketConn

	mu    sync.Mutex
	heard chan struct{} // closed at the next
	at    time.Time
	from  map[byte]netip.Addr // who sent the last, by VRID
	turns map[byte]int        // how often another than that sent
}

func hearAdverts(s *segment.Station) (*adverts, error) {
	a := &adverts{heard: make(chan struct{}), from: map[byte]netip.Addr{}, turns: map[byte]int{}}
	err := s.Do(func() error {
		c, err := net.ListenPacket("ip4:112", "0.0.0.0")
		if err != nil {
			return err
		}
		a.conn = ipv4.NewPacketConn(c)
		iface, err := net.InterfaceByName(segment.Interface)
		if err == nil {
			err = a.conn.JoinGroup(iface, &net.IPAddr{IP: net.IPv4(224, 0, 0, 18)}) // RFC 9568 section 5.1.1.2
		}
		if err != nil {
			err = errors.Join(err, c.Close())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	go a.listen()
	return a, nil
}

func (a *adverts) listen() {
	b := make([]byte, 256)
	for {
		n, _, from, err := a.conn.ReadFrom(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || n < 8 {
			continue
		}
		sender, _ := netip.AddrFromSlice(from.(*net.IPAddr).IP.To4())
		a.note(b[1], sender) // the VRID, RFC 9568 section 5.1
	}
}

func (a *adverts) note(vrid byte, sender netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last, ok := a.from[vrid]; ok && last != sender {
		a.turns[vrid]++
	}
	a.at, a.from[vrid] = time.Now(), sender
	close(a.heard)
	a.heard = make(chan struct{})
}

// changes is how often adverts of a VRID came from another sender than the one
// before.
func (a *adverts) changes(vrid byte) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.turns[vrid]
}

func (a *adverts) close() { _ = a.conn.Close() }

func (a *adverts) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.from)
	clear(a.turns)
}

// sender of the latest advert of a VRID.
func (a *adverts) sender(vrid byte) netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.from[vrid]
}

// phase returns when the given time after the next advert is over.
func (a *adverts) phase(ctx context.Context, after time.Duration) error {
	a.mu.Lock()
	next := a.heard
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	select {
	case <-next:
	case <-ctx.Done():
		return errors.New("no advert within 10 s")
	}
	a.mu.Lock()
	at := a.at
	a.mu.Unlock()
	if !pause(ctx, time.Until(at.Add(after))) {
		return ctx.Err()
	}
	return nil
}

package announce

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// ErrGone is returned once the interface has been removed. Another Speaker is
// needed when one of that name comes back.
var ErrGone = errors.New("interface is gone")

// Options are what a Speaker needs.
type Options struct {
	Interface string
	// Own are hardware addresses of this machine on the segment besides that of
	// the interface; what they say is no rival.
	Own []MAC
	// As is the hardware address that Announce claims with, unless zero: that of
	// a virtual router, whatever interface its frames leave by. It is our own.
	As MAC
	// Router is the router flag of advertisements: whether the machine forwards IPv6.
	Router bool
	// Heard, unless nil, is told of every claim and probe of a watched address.
	// It is called on the reading goroutine and must not block.
	Heard func(Heard)
}

// Counters are totals since Open.
type Counters struct {
	Requests, Replies, Advertisements uint64 // sent: ARP by operation, and NDP
	Claims, Probes                    uint64 // heard, of watched addresses
	Foul                              uint64 // heard, but malformed
	Unsent                            uint64 // frames that the kernel refused
}

// Speaker announces addresses on one interface and hears rivals. It belongs to
// the network namespace of the thread that opened it. All methods are safe for
// concurrent use.
type Speaker struct {
	options  Options
	arp, ndp *socket
	closed   atomic.Bool

	requests, replies, advertisements, claims, probes, foul, unsent atomic.Uint64

	mu      sync.Mutex
	watched map[netip.Addr]bool
	waiting map[netip.Addr][]chan Heard // of Probe
}

// Open opens a Speaker. It needs CAP_NET_RAW. It hears nothing before Watch.
func Open(o Options) (*Speaker, error) {
	iface, err := net.InterfaceByName(o.Interface)
	if err != nil {
		return nil, fmt.Errorf("open speaker on %s: %w", o.Interface, err)
	}
	if _, err := MACFrom(iface.HardwareAddr); err != nil {
		return nil, fmt.Errorf("open speaker on %s: %w; ARP and NDP need an Ethernet interface", o.Interface, err)
	}
	arp, err := openSocket(iface.Index, etherTypeARP)
	if err != nil {
		return nil, fmt.Errorf("open speaker on %s: %w", o.Interface, err)
	}
	ndp, err := openSocket(iface.Index, etherTypeIPv6)
	if err != nil {
		arp.file.Close()
		return nil, fmt.Errorf("open speaker on %s: %w", o.Interface, err)
	}
	return &Speaker{options: o, arp: arp, ndp: ndp, watched: map[netip.Addr]bool{}, waiting: map[netip.Addr][]chan Heard{}}, nil
}

// Close ends Run. Nothing is sent any more.
func (s *Speaker) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return errors.Join(s.arp.file.Close(), s.ndp.file.Close())
}

// Counters returns the totals.
func (s *Speaker) Counters() Counters {
	return Counters{
		Requests: s.requests.Load(), Replies: s.replies.Load(), Advertisements: s.advertisements.Load(),
		Claims: s.claims.Load(), Probes: s.probes.Load(), Foul: s.foul.Load(), Unsent: s.unsent.Load(),
	}
}

// Announce claims addr once: a gratuitous request and a reply, or an
// unsolicited advertisement, with the hardware address that the interface has
// now, or Options.As.
func (s *Speaker) Announce(addr netip.Addr) error {
	mac, err := s.arp.station()
	if err != nil {
		return fmt.Errorf("announce %s on %s: %w", addr, s.options.Interface, err)
	}
	if s.options.As != (MAC{}) {
		mac = s.options.As
	}
	if addr.Is4() {
		err = errors.Join(
			s.say(s.arp, Gratuitous(addr, mac, Request).Append(nil), &s.requests),
			s.say(s.arp, Gratuitous(addr, mac, Reply).Append(nil), &s.replies),
		)
	} else {
		err = s.say(s.ndp, Unsolicited(addr, mac, s.options.Router).Append(nil), &s.advertisements)
	}
	if err != nil {
		return fmt.Errorf("announce %s on %s: %w", addr, s.options.Interface, err)
	}
	return nil
}

func (s *Speaker) say(to *socket, frame []byte, count *atomic.Uint64) error {
	if err := to.send(frame); err != nil {
		s.unsent.Add(1)
		return err
	}
	count.Add(1)
	return nil
}

// Watch makes these, and no others, the addresses about which Heard is told.
func (s *Speaker) Watch(addrs []netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched = map[netip.Addr]bool{}
	for _, a := range addrs {
		s.watched[a] = true
	}
	return s.listen()
}

// listen tells the kernel what to pass. The lock is held.
func (s *Speaker) listen() error {
	wanted := maps.Clone(s.watched)
	for a := range s.waiting {
		wanted[a] = true
	}
	var fours, sixes []netip.Addr
	groups := map[MAC]bool{}
	for _, a := range slices.SortedFunc(maps.Keys(wanted), netip.Addr.Compare) {
		if a.Is4() {
			fours = append(fours, a)
			continue
		}
		sixes = append(sixes, a)
		groups[groupMAC(solicitedNode(a))] = true
	}
	err := errors.Join(s.arp.filter(arpFilter(fours)), s.ndp.filter(neighborFilter(sixes)), s.ndp.join(groups))
	if err != nil {
		return fmt.Errorf("watch addresses on %s: %w", s.options.Interface, err)
	}
	return nil
}

// Run reads until the context ends or Close is called, and then returns nil.
func (s *Speaker) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	var both errgroup.Group
	both.Go(func() error { return s.read(s.arp, s.hearARP) })
	both.Go(func() error { return s.read(s.ndp, s.hearNDP) })
	if err := both.Wait(); err != nil {
		return fmt.Errorf("hear rivals on %s: %w", s.options.Interface, err)
	}
	return nil
}

func (s *Speaker) read(from *socket, hear func([]byte)) error {
	buffer := make([]byte, 2048)
	for {
		n, err := from.receive(buffer)
		switch {
		case err != nil && s.closed.Load():
			return nil
		case err != nil:
			return errors.Join(err, s.Close()) // the other one must not go on alone
		}
		if n > 0 {
			hear(buffer[:n])
		}
	}
}

func (s *Speaker) hearARP(frame []byte) {
	a, err := ParseARP(frame)
	if err != nil {
		s.foul.Add(1)
		return
	}
	if addr, mac, kind, ok := heardARP(a); ok {
		s.tell(Heard{Address: addr, MAC: mac, Kind: kind, At: time.Now()})
	}
}

func (s *Speaker) hearNDP(frame []byte) {
	n, err := ParseNDP(frame)
	if err != nil {
		s.foul.Add(1)
		return
	}
	if addr, mac, kind, ok := heardNeighbor(n); ok {
		s.tell(Heard{Address: addr, MAC: mac, Kind: kind, At: time.Now()})
	}
}

func (s *Speaker) tell(h Heard) {
	if slices.Contains(s.options.Own, h.MAC) || h.MAC == s.options.As {
		return
	}
	// Read each time: a bond changes it. An error means that the interface is
	// gone, and then the frame is an old one.
	if mac, err := s.arp.station(); err != nil || mac == h.MAC {
		return
	}
	s.mu.Lock()
	watched, waiting := s.watched[h.Address], s.waiting[h.Address]
	if h.Kind == Claim {
		for _, w := range waiting {
			select {
			case w <- h:
			default: // has its answer
			}
		}
	}
	s.mu.Unlock()
	if !watched {
		return
	}
	if h.Kind == Probe {
		s.probes.Add(1)
	} else {
		s.claims.Add(1)
	}
	if s.options.Heard != nil {
		s.options.Heard(h)
	}
}

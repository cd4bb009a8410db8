package vip

import (
	"net/netip"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/vip/hold"
)

// Announcer tells routers where an address is: by BGP, or by a route in a table.
// Its calls return soon; what they take up is done again until it is true.
type Announcer interface {
	Up(addr netip.Addr)
	Down(addr netip.Addr)
	// Grace is for how long packets are under way for an address after Down.
	Grace() time.Duration
	// Yield is told when another is about to take the address over: routers that
	// can are to prefer it as soon as it is announced there.
	Yield(addr netip.Addr)
	// Retreat is Down for a machine that ends on purpose, which may be gentler,
	// and returns how long to go on answering.
	Retreat(addr netip.Addr) time.Duration
}

// presence is a Holder of addresses that routers are told of: they answer before
// packets are asked for, and packets go elsewhere before they do not.
type presence struct {
	*hold.Holder
	addresses  []netip.Addr
	announcers []Announcer
}

// present makes a group's presence, with the addresses of h.
func (a *agent) present(g *GroupSettings, h *hold.Holder, addresses []netip.Addr) *presence {
	return &presence{Holder: h, addresses: addresses, announcers: a.routing.of(g)}
}

// Take is that of hold.Holder.
func (p *presence) Take(begun time.Time, term time.Duration) error {
	return p.taken(p.Holder.Take(begun, term))
}

// TakeUntil is that of hold.Holder.
func (p *presence) TakeUntil(deadline time.Time) error {
	return p.taken(p.Holder.TakeUntil(deadline))
}

// taken has packets come, or go elsewhere if the addresses do not answer.
func (p *presence) taken(err error) error {
	if err != nil {
		p.withdraw()
		return err
	}
	for _, n := range p.announcers {
		for _, a := range p.addresses {
			n.Up(a)
		}
	}
	return nil
}

// Yield is that of hold.Holder.
func (p *presence) Yield() {
	p.Holder.Yield()
	for _, n := range p.announcers {
		for _, a := range p.addresses {
			n.Yield(a)
		}
	}
}

// afterglow is how long the addresses answer after another holder was heard: its
// advert may be a little ahead of its announcement, and that of the clients' next
// packet. A router has to hear of it too, compute and write its table, which takes
// FRR some 60 ms; two must not answer for longer than an interval.
func (p *presence) afterglow(interval time.Duration) time.Duration {
	if len(p.announcers) == 0 {
		return afterglow
	}
	return max(afterglow, min(interval, longAfterglow))
}

const (
	afterglow     = 10 * time.Millisecond
	longAfterglow = 100 * time.Millisecond
)

// Drop is that of hold.Holder.
func (p *presence) Drop() error {
	p.withdraw()
	return p.Holder.Drop()
}

// Close is that of hold.Holder.
func (p *presence) Close() error {
	p.withdraw()
	return p.Holder.Close()
}

// withdraw has packets go elsewhere, and returns for how long they still come.
func (p *presence) withdraw() (grace time.Duration) {
	for _, n := range p.announcers {
		grace = max(grace, n.Grace())
		for _, a := range p.addresses {
			n.Down(a)
		}
	}
	return grace
}

// retreat is withdraw at the end.
func (p *presence) retreat() (grace time.Duration) {
	for _, n := range p.announcers {
		for _, a := range p.addresses {
			grace = max(grace, n.Retreat(a))
		}
	}
	return grace
}

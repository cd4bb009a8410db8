package gate

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// ErrShut is returned by Renew when an address is not open any more: its
// timeout has passed. Whoever wants it has to win it again.
var ErrShut = errors.New("the timeout has passed and the address is shut")

// ErrLate is returned when the deadline has passed, or the process was held up
// so long that it could not be kept to. Nothing was opened.
var ErrLate = errors.New("too late to keep to the deadline")

// ErrFlushed is returned by Renew when our tables are gone, as after `nft flush
// ruleset`, which the reload of many a firewall begins with: nothing is gated.
// Open makes them anew; whether this machine still has the right to call it is
// for the caller to know.
var ErrFlushed = errors.New("the tables have been removed by somebody else")

// permit is how long a permit is good for; see OpenUntil. Two transactions take
// less than 1 ms unless something rewrites thousands of rules meanwhile.
const permit = 100 * time.Millisecond

// Config says where the gate is. The zero value is the usual one.
type Config struct {
	// Table is the name of the tables, default holdfast_vip. Agents that run
	// side by side on one machine need different ones.
	Table string
	// Refused addresses get nothing in, even while they are open: the machine
	// forwards for others, as a router that is not the owner of its virtual
	// address (RFC 9568 section 6.4.3, Accept_Mode false). ARP and neighbor
	// discovery go on; what is forwarded is not touched.
	Refused []netip.Addr
	// Virtual addresses stand on a virtual interface. The kernel answers ARP for
	// an address of any interface on each of them: what does not have a virtual
	// router's hardware address as its sender is held back. Router advertisements
	// that come in by such an interface are, too: they would make the kernel send
	// its own traffic from there. The names begin with VirtualPrefix.
	Virtual       []netip.Addr
	VirtualPrefix string
}

// Gate controls the tables. It belongs to the network namespace of the thread
// that made it. All methods are safe for concurrent use.
type Gate struct {
	mu      sync.Mutex
	config  Config
	conn    *nftables.Conn
	rules   *rules
	guarded map[netip.Addr]bool
	devices map[string]bool
	egress  bool
}

// New makes the tables anew, with nothing guarded: what an earlier run left is
// removed in the same transaction. Take that run's addresses off the machine
// first (package link), or they speak for a moment.
func New(c Config) (*Gate, error) {
	if c.Table == "" {
		c.Table = "holdfast_vip"
	}
	conn, err := nftables.New(nftables.AsLasting())
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	g := &Gate{config: c, conn: conn, rules: newRules(c.Table), guarded: map[netip.Addr]bool{}, devices: map[string]bool{}}
	if err = g.make(); err == nil {
		g.egress, err = g.rules.hasEgress(conn)
	}
	if err != nil {
		_ = conn.CloseLasting()
		return nil, fmt.Errorf("make tables: %w%s", err, remedy(err))
	}
	return g, nil
}

// make makes the tables anew, with what is guarded and nothing open.
func (g *Gate) make() error {
	err := g.transact(func() error {
		g.rules.remove(g.conn)
		if err := g.rules.add(g.conn); err != nil {
			return err
		}
		return g.fill()
	})
	for iface := range maps.Clone(g.devices) {
		err = errors.Join(err, g.hook(iface))
	}
	return err
}

// fill queues what is in the sets from the start.
func (g *Gate) fill() error {
	if err := g.elements((*nftables.Conn).SetAddElements, guarded, 0, slices.Collect(maps.Keys(g.guarded))...); err != nil {
		return err
	}
	if len(g.config.Refused) > 0 {
		if err := g.rules.refuse(g.conn); err != nil {
			return err
		}
	}
	if len(g.config.Virtual) > 0 {
		if err := g.rules.virtualise(g.conn, g.config.VirtualPrefix); err != nil {
			return err
		}
	}
	return errors.Join(
		g.elements((*nftables.Conn).SetAddElements, refused, 0, g.config.Refused...),
		g.elements((*nftables.Conn).SetAddElements, virtual, 0, g.config.Virtual...),
	)
}

// remedy says what to do about an error of the first transaction.
func remedy(err error) string {
	switch {
	case errors.Is(err, unix.EPERM):
		return "; the agent needs CAP_NET_ADMIN"
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EAFNOSUPPORT):
		return "; the kernel needs nftables with the families inet and arp and the expression fib (modprobe nf_tables nft_fib_inet)"
	}
	return ""
}

// Egress reports whether raw sockets are gated too.
func (g *Gate) Egress() bool { return g.egress }

// Close gives up the connection. Everything stays as it is: what is open will
// fall shut.
func (g *Gate) Close() error { return g.conn.CloseLasting() }

// Guard makes the address mute while it is not open. Call it before the address
// is put on the machine. iface is where its frames leave. It may be missing; call
// Guard again when it has come, or come back, for raw sockets to be gated too.
func (g *Gate) Guard(addr netip.Addr, iface string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.guard(addr, iface); err != nil {
		return fmt.Errorf("guard %s on %s: %w", addr, iface, err)
	}
	return nil
}

func (g *Gate) guard(addr netip.Addr, iface string) error {
	element := func() error { return g.elements((*nftables.Conn).SetAddElements, guarded, 0, addr) }
	if err := g.mend(element); err != nil {
		return err
	}
	g.guarded[addr] = true
	return g.hook(iface)
}

// hook gates raw sockets on an interface. Some kernels hook into one that is yet
// to come, others refuse, which is no error: Guard will be called again.
func (g *Gate) hook(iface string) error {
	if !g.egress {
		return nil
	}
	err := g.transact(func() error {
		g.rules.device(g.conn, iface)
		return nil
	})
	if g.devices[iface] = err == nil; errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// Open opens the address for the timeout, whether or not it was open. It guards
// it first if it was not.
func (g *Gate) Open(addr netip.Addr, iface string, timeout time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.ready(addr, iface)
	if err == nil {
		err = g.mend(func() error { return g.set(held, timeout, addr) })
	}
	if err != nil {
		return fmt.Errorf("open %s on %s: %w", addr, iface, err)
	}
	return nil
}

func (g *Gate) ready(addr netip.Addr, iface string) error {
	if g.guarded[addr] && g.devices[iface] == g.egress {
		return nil
	}
	return g.guard(addr, iface)
}

// Renew lets the addresses stay open for the timeout from now, all of them or,
// with ErrShut, none.
func (g *Gate) Renew(timeout time.Duration, addrs ...netip.Addr) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.transact(func() error { return g.extend(timeout, addrs) }); err != nil {
		return fmt.Errorf("renew %v: %w", addrs, g.because(err, ErrShut))
	}
	return nil
}

// extend deletes and adds: adding alone would leave the old timeout in place,
// and deleting fails when it has passed, and the transaction with it.
func (g *Gate) extend(timeout time.Duration, addrs []netip.Addr) error {
	if err := g.elements((*nftables.Conn).SetDeleteElements, held, 0, addrs...); err != nil {
		return err
	}
	return g.elements((*nftables.Conn).SetAddElements, held, timeout, addrs...)
}

// OpenUntil is Open, but the address is shut again at the deadline however long
// this process is held up inside.
//
// It first gives itself a permit, an element with a timeout of its own, then
// reads the clock, and then trades the permit for the opening. A process that
// was stopped before it read the clock finds the time gone; one that was
// stopped after finds the permit gone. The time that a permit is good for is
// taken off what is left until the deadline.
func (g *Gate) OpenUntil(addr netip.Addr, iface string, deadline time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.ready(addr, iface)
	if err == nil {
		err = g.mend(func() error { return g.set(permits, permit, addr) })
	}
	if err == nil {
		err = g.until(deadline, []netip.Addr{addr}, func(left time.Duration) error { return g.set(held, left, addr) })
	}
	if err != nil {
		return fmt.Errorf("open %s on %s: %w", addr, iface, g.because(err, ErrLate))
	}
	return nil
}

// RenewUntil is Renew with a deadline, as OpenUntil is Open with one. It
// returns ErrLate also when an address was shut.
func (g *Gate) RenewUntil(deadline time.Time, addrs ...netip.Addr) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.transact(func() error { return g.set(permits, permit, addrs...) })
	if err == nil {
		err = g.until(deadline, addrs, func(left time.Duration) error { return g.extend(left, addrs) })
	}
	if err != nil {
		return fmt.Errorf("renew %v: %w", addrs, g.because(err, ErrLate))
	}
	return nil
}

// until trades a permit for what open does.
func (g *Gate) until(deadline time.Time, addrs []netip.Addr, open func(left time.Duration) error) error {
	left := time.Until(deadline) - permit
	if left < time.Millisecond {
		return ErrLate
	}
	return g.transact(func() error {
		if err := g.elements((*nftables.Conn).SetDeleteElements, permits, 0, addrs...); err != nil {
			return err
		}
		return open(left)
	})
}

// because replaces the kernel's word for an element that has expired, which is
// also its word for a set that is not there.
func (g *Gate) because(err, reason error) error {
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	if _, err := g.conn.GetSetByName(g.rules.inet, string(held)+"4"); err != nil {
		return ErrFlushed
	}
	return reason
}

// Shut shuts addresses at once, whether or not they were open.
func (g *Gate) Shut(addrs ...netip.Addr) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.mend(func() error { return g.unset(held, addrs...) }); err != nil {
		return fmt.Errorf("shut %v: %w", addrs, err)
	}
	return nil
}

// Forget ends Guard. Take the address off the machine first.
func (g *Gate) Forget(addrs ...netip.Addr) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.mend(func() error {
		return errors.Join(g.unset(held, addrs...), g.unset(guarded, addrs...))
	})
	if err != nil {
		return fmt.Errorf("forget %v: %w", addrs, err)
	}
	for _, a := range addrs {
		delete(g.guarded, a)
	}
	return nil
}

// Clear removes everything of ours from the kernel.
func (g *Gate) Clear() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rules.remove(g.conn)
	if err := g.conn.Flush(); err != nil {
		return fmt.Errorf("remove tables: %w", err)
	}
	clear(g.guarded)
	clear(g.devices)
	return nil
}

// Left returns for how long the address stays open unless renewed; 0 if shut.
func (g *Gate) Left(addr netip.Addr) (time.Duration, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all, err := g.conn.GetSetElements(g.rules.sets(held, addr.Is6())[0])
	if err != nil {
		return 0, fmt.Errorf("list what is open: %w", err)
	}
	i := slices.IndexFunc(all, func(e nftables.SetElement) bool { return slices.Equal(e.Key, addr.AsSlice()) })
	if i < 0 {
		return 0, nil
	}
	return all[i].Expires, nil
}

// transact sends what f has queued. After an error that is not about an element,
// answers may be left on the connection, and the next changes go by another one.
func (g *Gate) transact(f func() error) error {
	if err := f(); err != nil {
		return err
	}
	err := g.conn.Flush()
	if err != nil && !errors.Is(err, unix.ENOENT) {
		_ = g.conn.CloseLasting()
	}
	return err
}

// mend is transact for changes that only fail to find something if our tables
// are gone: it makes them anew and tries once more.
func (g *Gate) mend(f func() error) error {
	err := g.transact(f)
	if !errors.Is(err, unix.ENOENT) || g.because(err, nil) == nil {
		return err
	}
	if err := g.make(); err != nil {
		return err
	}
	return g.transact(f)
}

// set queues that the elements are there with exactly this timeout: adding
// makes the deletion succeed, and only adding after a deletion starts it anew.
func (g *Gate) set(k kind, timeout time.Duration, addrs ...netip.Addr) error {
	if err := g.unset(k, addrs...); err != nil {
		return err
	}
	return g.elements((*nftables.Conn).SetAddElements, k, timeout, addrs...)
}

// unset queues that the elements are not there.
func (g *Gate) unset(k kind, addrs ...netip.Addr) error {
	if err := g.elements((*nftables.Conn).SetAddElements, k, time.Second, addrs...); err != nil {
		return err
	}
	return g.elements((*nftables.Conn).SetDeleteElements, k, 0, addrs...)
}

// elements queues one change of every set that has these addresses, one message
// for each set.
func (g *Gate) elements(change func(*nftables.Conn, *nftables.Set, []nftables.SetElement) error, k kind, timeout time.Duration, addrs ...netip.Addr) error {
	return g.elementsFor(change, k, func(netip.Addr) time.Duration { return timeout }, addrs)
}

// elementsFor is elements with a timeout for each address.
func (g *Gate) elementsFor(change func(*nftables.Conn, *nftables.Set, []nftables.SetElement) error, k kind, timeout func(netip.Addr) time.Duration, addrs []netip.Addr) error {
	var fours, sixes []nftables.SetElement
	for _, as := range addrs {
		a := as.Unmap()
		if e := (nftables.SetElement{Key: a.AsSlice(), Timeout: timeout(as)}); a.Is6() {
			sixes = append(sixes, e)
		} else {
			fours = append(fours, e)
		}
	}
	for _, all := range [][]nftables.SetElement{fours, sixes} {
		if len(all) == 0 {
			continue
		}
		for _, set := range g.rules.sets(k, len(all[0].Key) == net.IPv6len) {
			if err := change(g.conn, set, all); err != nil {
				return fmt.Errorf("change set %s: %w", set.Name, err)
			}
		}
	}
	return nil
}

package gate

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"
)

// mostTogether bounds one transaction of RenewEachUntil: the elements of a set are
// in one message, whose attributes have a length of 16 bits.
const mostTogether = 500

// RenewEachUntil is RenewUntil for addresses with a deadline each. It takes two
// transactions for hundreds of them: whoever writes rules on this machine, as
// kube-proxy does, has to begin anew when another's transaction comes between, and
// would never come to an end among hundreds a second. The addresses stay open or
// fall shut together, 500 at a time in their order.
func (g *Gate) RenewEachUntil(deadlines map[netip.Addr]time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	all := slices.SortedFunc(maps.Keys(deadlines), netip.Addr.Compare)
	for some := range slices.Chunk(all, mostTogether) {
		if err := g.renewEach(some, deadlines); err != nil {
			errs = append(errs, fmt.Errorf("renew %d addresses from %s: %w", len(some), some[0], g.because(err, ErrLate)))
		}
	}
	return errors.Join(errs...)
}

func (g *Gate) renewEach(addrs []netip.Addr, deadlines map[netip.Addr]time.Time) error {
	if err := g.transact(func() error { return g.set(permits, permit, addrs...) }); err != nil {
		return err
	}
	now, left := time.Now(), map[netip.Addr]time.Duration{}
	for _, a := range addrs {
		if left[a] = deadlines[a].Sub(now) - permit; left[a] < time.Millisecond {
			return ErrLate
		}
	}
	return g.transact(func() error {
		if err := g.elements((*nftables.Conn).SetDeleteElements, permits, 0, addrs...); err != nil {
			return err
		}
		if err := g.elements((*nftables.Conn).SetDeleteElements, held, 0, addrs...); err != nil {
			return err
		}
		return g.elementsFor((*nftables.Conn).SetAddElements, held, func(a netip.Addr) time.Duration { return left[a] }, addrs)
	})
}

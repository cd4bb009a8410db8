package hold

import (
	"net/netip"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/gate"
)

// RenewTogether is RenewUntil for Holders of one Door with a deadline each, in as
// few changes of rules as can be; see gate.RenewEachUntil. Holders that hold
// nothing any more are left out. It returns the errors of those that are mute. Not
// to be called twice at a time.
func RenewTogether(all map[*Holder]time.Time) map[*Holder]error {
	deadlines, held := map[netip.Addr]time.Time{}, map[*Holder]time.Time{}
	var g *gate.Gate
	for h, deadline := range all {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !h.held {
			continue
		}
		held[h] = deadline
		g, _ = h.door.Gate()
		for _, a := range h.config.Addresses {
			deadlines[a] = deadline
		}
	}
	if g == nil {
		return nil
	}
	failed := map[*Holder]error{}
	together := g.RenewEachUntil(deadlines)
	for h, deadline := range held {
		err := together
		if err != nil { // of one of them; the others need not suffer for it
			err = g.RenewUntil(deadline, h.config.Addresses...)
		}
		if err == nil {
			h.until = deadline
			h.renewals++
		}
		if err != nil {
			failed[h] = err
		}
	}
	return failed
}

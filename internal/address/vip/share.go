package vip

import "time"

// share is the part of one machine in an address that all have. It is pure.
type share struct {
	held bool
	// leaving is until when packets are answered that were under way when routers
	// were told to send no more; zero: routers are to send them here.
	leaving time.Time
}

// wish says whether the address is to be on this machine.
type wish int

const (
	impossible wish = iota // the interface is gone
	unwanted               // unhealthy, or the agent ends
	wanted
)

// deed is what is to be done now.
type deed int

const (
	drop     deed = iota // stop answering, if it does
	withdraw             // have routers send packets elsewhere, then ask again
	linger               // answer what was under way
	serve                // answer, and have routers send packets here
)

// next decides. A machine that is unhealthy may still be able to answer, and one
// that ends is: routers take a while until they send packets elsewhere.
func (s share) next(now time.Time, w wish) deed {
	switch {
	case w == wanted:
		return serve
	case w == impossible || !s.held:
		return drop
	case s.leaving.IsZero():
		return withdraw
	case now.Before(s.leaving):
		return linger
	}
	return drop
}

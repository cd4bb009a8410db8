package bfd

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"time"
)

// SessionConfig is one session of a Manager.
type SessionConfig struct {
	// Peer is the address on the other end of the hop.
	Peer netip.Addr
	// Local is the source address; the zero value leaves it to the kernel.
	Local netip.Addr
	// Interface, if named, is where packets leave and arrive; an address that
	// is link-local needs one. It may come later, go and come back.
	Interface string
	Timers    Timers
	// OnChange, if set, is called with every change of state, in their order,
	// never two at a time, and on a goroutine of its own: a slow one delays no
	// packet, and no other session.
	OnChange func(Change)
}

// Validate returns an error of one line that names field, value and remedy.
func (c SessionConfig) Validate() error {
	switch {
	case !c.Peer.IsValid():
		return errors.New("peer: missing; name the address of the neighbor")
	case c.Peer.IsUnspecified() || c.Peer.IsMulticast() || c.Peer.Is4In6():
		return fmt.Errorf("peer: %v is not the address of one neighbor; use a unicast address", c.Peer)
	case c.Peer.Zone() != "" && c.Interface != "" && c.Peer.Zone() != c.Interface:
		return fmt.Errorf("peer: zone of %v and interface %s differ; name one of them", c.Peer, c.Interface)
	case c.Peer.Is6() && c.Peer.IsLinkLocalUnicast() && c.Peer.Zone() == "" && c.Interface == "":
		return fmt.Errorf("interface: missing, but peer %v is link-local; name the interface it is on", c.Peer)
	case c.Local.IsValid() && c.Local.Is4() != c.Peer.Is4():
		return fmt.Errorf("local: %v and peer %v are of different families; use an address of the peer's", c.Local, c.Peer)
	case len(c.Interface) > 15:
		return fmt.Errorf("interface: %q is longer than the 15 characters that a name has; correct it", c.Interface)
	}
	if err := c.Timers.Validate(); err != nil {
		return fmt.Errorf("peer %v: %w", c.Peer, err)
	}
	return nil
}

// plain moves a zone of the addresses to Interface.
func (c SessionConfig) plain() SessionConfig {
	if c.Interface == "" {
		c.Interface = c.Peer.Zone()
	}
	c.Peer, c.Local = c.Peer.WithZone(""), c.Local.WithZone("")
	return c
}

// Counters of a session since it was added.
type Counters struct {
	Sent, Received, SendErrors uint64
	// Ups counts how often the session has come up, Failures how often it has
	// failed (Change.Failed).
	Ups, Failures uint64
	// Dropped are packets from the peer's address that were not taken.
	Dropped map[Reason]uint64
}

// Status is a session at one moment.
type Status struct {
	Peer, Local      netip.Addr
	Interface        string
	State, Remote    State
	Diag, RemoteDiag Diag
	// Since is when State began.
	Since              time.Time
	Discr, RemoteDiscr uint32
	// Want is what this end asks for; TxInterval (0: the peer wants none),
	// RxInterval and Detection are what is agreed, the latter two 0 while the
	// peer is not heard.
	Want                              Timers
	TxInterval, RxInterval, Detection time.Duration
	// Trouble is why the last packet could not be sent, or "".
	Trouble string
	Counters
}

// Handle is a session in the hands of its owner.
type Handle struct {
	manager *Manager
	config  SessionConfig
	discr   uint32
	log     *slog.Logger
	sender  *sender // the loop's

	mu       sync.Mutex // guards the rest
	session  *Session
	leaving  bool
	deadline time.Duration // of leaving
	since    time.Time
	trouble  string
	counters Counters
	// complained holds the reasons that were logged since the last change.
	complained map[Reason]bool
	// pending are changes that OnChange has not seen; telling says that a
	// goroutine is at it.
	pending []Change
	telling bool
}

// State is the state of the session now.
func (h *Handle) State() State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.session.State()
}

// Status describes the session.
func (h *Handle) Status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.session
	st := Status{
		Peer: h.config.Peer, Local: h.config.Local, Interface: h.config.Interface,
		State: s.state, Remote: s.peer.state, Diag: s.diag, RemoteDiag: s.peer.diag, Since: h.since,
		Discr: s.discr, RemoteDiscr: s.peer.discr, Want: s.want, TxInterval: s.agreed(),
		Trouble: h.trouble, Counters: h.counters,
	}
	if s.peer.heard {
		st.RxInterval, st.Detection = s.interval(), s.detection()
	}
	st.Dropped = maps.Clone(h.counters.Dropped)
	return st
}

// SetTimers changes what this end asks for, while the session stays up.
func (h *Handle) SetTimers(t Timers) error {
	if err := t.Validate(); err != nil {
		return fmt.Errorf("peer %v: %w", h.config.Peer, err)
	}
	h.manager.post(func(time.Duration) { h.manager.perform(h, func() []Action { return h.session.SetTimers(t) }) })
	return nil
}

// SetAdminDown holds the session down on purpose, or lets it come up again.
func (h *Handle) SetAdminDown(down bool) {
	h.manager.post(func(now time.Duration) {
		if down {
			h.manager.perform(h, func() []Action { return h.session.AdminDown(now) })
		} else if !h.leaving {
			h.manager.perform(h, func() []Action { return h.session.AdminUp(now) })
		}
	})
}

// Remove ends the session on purpose. It returns at once; the peer is told
// AdminDown until it knows, for at most Linger.
func (h *Handle) Remove() {
	h.manager.forget(h)
	h.manager.post(func(now time.Duration) { h.manager.leave(h, now) })
}

// tell hands a change to OnChange. Called with mu held.
func (h *Handle) tell(c Change) {
	if h.config.OnChange == nil {
		return
	}
	h.pending = append(h.pending, c)
	if !h.telling {
		h.telling = true
		go h.deliver()
	}
}

func (h *Handle) deliver() {
	for {
		h.mu.Lock()
		if len(h.pending) == 0 {
			h.telling = false
			h.mu.Unlock()
			return
		}
		c := h.pending[0]
		h.pending = h.pending[1:]
		h.mu.Unlock()
		h.config.OnChange(c)
	}
}

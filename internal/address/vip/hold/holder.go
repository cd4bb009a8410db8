package hold

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/announce"
	"github.com/holdfast-ha/holdfast/internal/address/gate"
	"github.com/holdfast-ha/holdfast/internal/address/link"
)

// Config is what one Holder holds.
type Config struct {
	Interface string
	Addresses []netip.Addr
	// Virtual is the interface that the addresses are on, unless its name is "".
	// It is made and removed here. Interface is its parent.
	Virtual link.Virtual
	// Own: see announce.Options.
	Own []announce.MAC
	// Quiet says that nothing is announced by ARP and NDP.
	Quiet bool
	Pace  announce.Pace
	// Heard is told of claims and probes of rivals, from any goroutine; it must
	// not block.
	Heard func(announce.Heard)
	Log   *slog.Logger
}

// Holder holds addresses of one interface, together. All methods are safe for
// concurrent use.
type Holder struct {
	config Config
	door   *Door
	links  *link.Handle
	wake   chan struct{}
	taken  chan struct{} // tells upkeep that there are addresses to refresh
	start  time.Time     // zero of the schedule's clock

	// ground is held by whoever changes the addresses of the interface, and taken
	// before mu. The kernel makes such changes wait for a lock of the whole machine
	// (RTNL), for hundreds of milliseconds where network namespaces come and go;
	// renewing the gate, which needs mu alone, must not wait with them.
	ground   sync.Mutex
	mu       sync.Mutex
	held     bool
	yielding bool      // no rival is answered any more
	until    time.Time // the gate is shut then unless it is renewed
	fresh    time.Time // the addresses were refreshed then
	schedule *announce.Schedule
	speaker  *announce.Speaker
	said     string // the last complaint
	bursts   uint64
	mended   uint64
	renewals uint64
	earlier  announce.Counters // of speakers that are gone
}

// New returns a Holder that holds nothing. The gate guards its addresses from
// then on; take what an earlier run left off the machine first.
func New(c Config, d *Door, l *link.Handle) (*Holder, error) {
	h := &Holder{
		config: c, door: d, links: l, wake: make(chan struct{}, 1), taken: make(chan struct{}, 1), start: time.Now(),
		schedule: announce.NewSchedule(c.Pace, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))),
	}
	return h, h.guard()
}

func (h *Holder) guard() error {
	g, _ := h.door.Gate()
	for _, a := range h.config.Addresses {
		if err := g.Guard(a, h.config.Interface); err != nil {
			return err
		}
		if !h.virtual() {
			continue
		}
		if err := g.Guard(a, h.config.Virtual.Name); err != nil {
			return err
		}
	}
	return nil
}

// shortest is less than what an address is opened for: what gate.OpenUntil
// takes off for its own safety is 100 ms.
const shortest = 150 * time.Millisecond

// Take makes the addresses answer for the given time from begun on, and
// announces them. It does nothing, and returns gate.ErrLate, if the process was
// held up for so long that the time is over.
func (h *Holder) Take(begun time.Time, term time.Duration) error {
	return h.TakeUntil(begun.Add(max(term, shortest)))
}

// TakeUntil makes the addresses answer until the deadline, and announces them.
func (h *Holder) TakeUntil(deadline time.Time) error {
	h.ground.Lock()
	defer h.ground.Unlock()
	if err := h.begin(deadline); err != nil {
		return err
	}
	if err := h.refresh(); err != nil {
		return errors.Join(err, h.silence(), h.clear())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.held {
		return nil // given up meanwhile; who did so waits for the ground to clear it
	}
	h.schedule.Take(h.now())
	h.announce()
	h.nudge()
	return nil
}

// begin opens the gate, and holds from then on.
func (h *Holder) begin(deadline time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.open(deadline); err != nil {
		return err
	}
	h.held, h.yielding, h.until = true, false, deadline
	return nil
}

// open opens the gate until the deadline, for all addresses or none. When the
// tables are not there any more, they are made anew.
func (h *Holder) open(deadline time.Time) error {
	g, number := h.door.Gate()
	err := openAll(g, h.config, deadline)
	if err == nil {
		return nil
	}
	if _, missing := g.Left(h.config.Addresses[0]); missing == nil {
		return errors.Join(err, g.Shut(h.config.Addresses...))
	}
	if err := h.door.remake(number); err != nil {
		return err
	}
	h.config.Log.Warn("somebody removed the rules of the gate; they are there again")
	g, _ = h.door.Gate()
	if err := errors.Join(h.guard(), openAll(g, h.config, deadline)); err != nil {
		return errors.Join(err, g.Shut(h.config.Addresses...))
	}
	return nil
}

func openAll(g *gate.Gate, c Config, deadline time.Time) error {
	for _, a := range c.Addresses {
		if err := g.OpenUntil(a, c.Interface, deadline); err != nil {
			return err
		}
	}
	return nil
}

// Renew lets the addresses answer for term from now on. An error means that they
// are mute.
func (h *Holder) Renew(term time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.held {
		return gate.ErrShut
	}
	g, _ := h.door.Gate()
	until := time.Now().Add(term)
	if err := g.Renew(term, h.config.Addresses...); err != nil {
		return err
	}
	h.until = until
	h.renewals++
	return nil
}

// RenewUntil lets the addresses answer until the deadline.
func (h *Holder) RenewUntil(deadline time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.held {
		return gate.ErrShut
	}
	g, _ := h.door.Gate()
	if err := g.RenewUntil(deadline, h.config.Addresses...); err != nil {
		return err
	}
	h.until = deadline
	h.renewals++
	return nil
}

// Yield stops answering rivals and announcing: the address was given away.
func (h *Holder) Yield() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.yielding = true
	h.schedule.Drop()
}

// Again announces the addresses once more, if they are held: a rival, an
// inferior advert, or the carrier is back.
func (h *Holder) Again() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held && !h.yielding {
		h.schedule.Again(h.now())
		h.announce()
		h.nudge()
	}
}

// Drop makes the addresses mute and takes them off the interface.
func (h *Holder) Drop() error {
	err := h.silence()
	h.ground.Lock()
	defer h.ground.Unlock()
	return errors.Join(err, h.clear())
}

// silence makes the addresses mute.
func (h *Holder) silence() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held, h.yielding = false, false
	h.schedule.Drop()
	g, _ := h.door.Gate()
	return g.Shut(h.config.Addresses...)
}

// clear takes the addresses off the interface, unless they were taken again. The
// ground is held.
func (h *Holder) clear() error {
	if h.holds() {
		return nil
	}
	var err error
	for _, a := range h.config.Addresses {
		err = errors.Join(err, h.links.Remove(h.of(a)))
	}
	if h.virtual() {
		err = errors.Join(err, h.links.Lower(h.config.Virtual))
	}
	return err
}

func (h *Holder) holds() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// Close is Drop, and the end of the virtual interface.
func (h *Holder) Close() error {
	err := h.Drop()
	if h.virtual() {
		h.ground.Lock()
		defer h.ground.Unlock()
		err = errors.Join(err, h.links.RemoveVirtual(h.config.Virtual))
	}
	return err
}

func (h *Holder) now() time.Duration { return time.Since(h.start) }

func (h *Holder) nudge() {
	for _, c := range []chan struct{}{h.wake, h.taken} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// refreshEvery leaves three tries before the kernel takes an address away.
const refreshEvery = 500 * time.Millisecond

// upkeep refreshes the addresses while they are held, until ctx ends.
func (h *Holder) upkeep(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-h.taken:
		}
		next := time.Hour
		if h.keep() {
			next = refreshEvery
		}
		timer.Reset(next)
	}
}

// keep refreshes the addresses if that is due, and says whether they are held.
func (h *Holder) keep() bool {
	h.ground.Lock()
	defer h.ground.Unlock()
	h.mu.Lock()
	open := h.held && time.Now().Before(h.until)
	held, due := h.held, open && time.Since(h.fresh) >= refreshEvery/2
	h.mu.Unlock()
	if due {
		err := h.refresh()
		h.mu.Lock()
		h.complain("address not refreshed; it is tried again", err)
		h.mu.Unlock()
	}
	return held
}

// refresh adds the addresses, or prolongs their lives. The ground is held.
func (h *Holder) refresh() error {
	if err := h.raise(); err != nil {
		return err
	}
	for _, a := range h.config.Addresses {
		if err := h.links.Refresh(h.of(a)); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fresh = time.Now()
	return nil
}

// announce does what is due. The lock is held. An error is said once: the next
// announcement is another try.
func (h *Holder) announce() {
	if h.config.Quiet || !h.schedule.Tick(h.now()) {
		return
	}
	h.bursts++
	h.complain("address not announced; it is tried again", h.speak())
}

// complain says an error once, until it is another or none.
func (h *Holder) complain(what string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != h.said {
		h.config.Log.Warn(what, "error", text)
	}
	h.said = text
}

func (h *Holder) speak() error {
	if h.speaker == nil {
		return errors.New("no speaker yet")
	}
	var all error
	for _, a := range h.config.Addresses {
		all = errors.Join(all, h.speaker.Announce(a))
	}
	return all
}

// Run announces on schedule, refreshes the addresses and hears rivals, until ctx
// ends.
func (h *Holder) Run(ctx context.Context) {
	var around sync.WaitGroup
	defer around.Wait()
	around.Go(func() { h.upkeep(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		timer.Reset(h.turn())
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-h.wake:
		}
	}
}

// turn does what is due and returns when to come again.
func (h *Holder) turn() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.held || time.Now().After(h.until) {
		return time.Hour
	}
	h.announce()
	next := time.Hour
	if at, ok := h.schedule.Next(); ok {
		next = min(next, at-h.now())
	}
	return max(next, time.Millisecond)
}

// of is an address as package link wants it.
func (h *Holder) of(a netip.Addr) link.Address {
	iface := h.config.Interface
	if h.virtual() {
		iface = h.config.Virtual.Name
	}
	return link.Address{Prefix: netip.PrefixFrom(a, a.BitLen()), Interface: iface}
}

package lease

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/ask"
)

// ErrConflict is wrapped by Store.Write when the record was another one, and
// nothing was done.
var ErrConflict = errors.New("the record has changed")

// Errors of Agent.Release.
var (
	ErrNotHeld = errors.New("the address is not held here")
	ErrRefused = errors.New("no peer that is ready and reaches the API was heard; the address stays")
)

// Store keeps the record. Calls end with their context.
type Store interface {
	// Read asks a quorum. That there is no record is no error.
	Read(ctx context.Context) (Seen, error)
	// Write puts record in the place of version; 0 creates it.
	Write(ctx context.Context, record Record, version uint64) (Seen, error)
	// Watch tells every new record, the zero Seen when it is gone, until ctx ends.
	Watch(ctx context.Context, tell func(Seen))
}

// Holding is what an Actor has to see to.
type Holding struct {
	// Until is by Now; at that instant the address has to be silent, by the
	// kernel's hand if need be.
	Until time.Duration
	// Began: the address was not held before.
	Began bool
	// Lingering: it was given away. Another may answer for it by now, so there is
	// no reason to defend it.
	Lingering bool
	Turn      uint64
	Cause     Cause // when it began
}

// Actor makes the address answer on this node. Its methods are called one after
// the other and return soon: deadlines are short, and wait for them.
type Actor interface {
	Hold(Holding)
	Release(Cause)
}

// Agent runs a Machine. Make it with NewAgent.
type Agent struct {
	config Config
	store  Store
	socket *ask.Socket
	group  string
	actor  Actor
	log    *slog.Logger

	inbox inbox
	done  chan struct{}
	key   atomic.Pointer[[]byte]
	beat  atomic.Int64 // when the loop last turned

	// What follows belongs to the loop.
	machine  *Machine
	calls    context.Context
	from     netip.AddrPort // of the message at hand
	stopped  bool
	waiting  []chan<- error // for the end of a hand-over
	tally    Tally
	apiError error
	foreign  string
}

// NewAgent checks the configuration, and fills in an Incarnation and a FreshKey
// where there is none. group names the record to all peers alike, such as
// "kube-system/holdfast-vip"; the socket is served by the caller.
func NewAgent(config Config, group string, store Store, socket *ask.Socket, actor Actor, log *slog.Logger) (*Agent, error) {
	if config.Incarnation == 0 {
		config.Incarnation = randomNumber()
	}
	if config.FreshKey == nil {
		config.FreshKey = make([]byte, sha256.Size)
		_, _ = rand.Read(config.FreshKey) // which cannot fail
	}
	if err := config.Check(); err != nil {
		return nil, err
	}
	return &Agent{
		config: config, store: store, socket: socket, group: group, actor: actor, log: log,
		inbox: inbox{wake: make(chan struct{}, 1)}, done: make(chan struct{}), machine: New(config),
	}, nil
}

func randomNumber() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:]) | 1 // never 0
}

// Run holds the address whenever it is to be held here, until ctx ends; then it
// gives it away, which takes at most the time to linger and a little, and returns.
func (a *Agent) Run(ctx context.Context) {
	defer close(a.done)
	outer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	a.calls = outer
	a.socket.Join(a.group, a.deliver)
	defer a.socket.Join(a.group, nil)
	go a.store.Watch(outer, func(seen Seen) {
		a.post(func(now time.Duration) []Action { a.shown(seen); return a.machine.News(now, seen) })
	})
	a.loop(ctx.Done())
}

// maxNap bounds a wait: the timers of a machine that was suspended are late.
const maxNap = time.Second

func (a *Agent) loop(stop <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !a.stopped {
		select {
		case <-a.inbox.wake:
			for _, f := range a.inbox.take() {
				a.turn(f)
			}
		case <-timer.C:
			a.turn(a.machine.Tick)
		case <-stop:
			stop = nil
			a.turn(a.machine.Stop)
		}
		timer.Reset(min(max(a.machine.Next()-Now(), 0), maxNap))
	}
}

func (a *Agent) turn(f func(time.Duration) []Action) {
	now := Now()
	a.beat.Store(int64(now))
	for _, action := range f(now) {
		a.do(action)
	}
	if key := a.machine.Key(); key != nil {
		a.key.Store(&key)
	}
}

// post has the loop do something, unless it has ended. It does not wait, so an
// Actor may call for it.
func (a *Agent) post(f func(time.Duration) []Action) { a.inbox.put(f, math.MaxInt) }

func (a *Agent) do(action Action) {
	switch action.Do {
	case Read, Write:
		go a.call(a.calls, action)
	case Send:
		a.send(action)
	case Hold:
		a.hold(action)
	case Release:
		a.tally.Released = count(a.tally.Released, action.Cause)
		a.log.Info("address let go", keyCause, action.Cause, keyTurn, a.machine.turn)
		a.actor.Release(action.Cause)
		a.resolve(handedOver(action.Cause))
	case Refused:
		a.resolve(ErrRefused)
	case Stopped:
		a.stopped = true
		a.resolve(nil)
	}
}

func (a *Agent) hold(action Action) {
	began := action.Cause != ""
	if began {
		a.tally.Held = count(a.tally.Held, action.Cause)
		a.log.Info("address held", keyCause, action.Cause, keyTurn, a.machine.turn)
	}
	a.actor.Hold(Holding{
		Until: action.Until, Began: began, Lingering: action.Lingering, Turn: a.machine.turn, Cause: action.Cause,
	})
}

// handedOver is what a waiting operator is told.
func handedOver(cause Cause) error {
	if cause == CauseHandedOver || cause == CauseLingered {
		return nil
	}
	return fmt.Errorf("the address was let go before it was given away: %s", cause)
}

func (a *Agent) resolve(err error) {
	for _, w := range a.waiting {
		w <- err
	}
	a.waiting = nil
}

// call makes a request.
func (a *Agent) call(ctx context.Context, action Action) {
	ctx, cancel := context.WithTimeout(ctx, action.Timeout)
	defer cancel()
	var seen Seen
	var err error
	if action.Do == Read {
		seen, err = a.store.Read(ctx)
	} else {
		seen, err = a.store.Write(ctx, action.Record, action.Version)
	}
	outcome := Done
	switch {
	case errors.Is(err, ErrConflict):
		outcome = Conflict
	case err != nil:
		outcome = Failed
	}
	a.post(func(now time.Duration) []Action {
		a.called(action.Do, outcome, err)
		if outcome == Done {
			a.shown(seen)
		}
		return a.machine.Called(now, action.ID, outcome, seen)
	})
}

// called counts, and says when the API is lost and when it is back.
func (a *Agent) called(do Do, outcome Outcome, err error) {
	calls := &a.tally.Reads
	if do == Write {
		calls = &a.tally.Writes
	}
	calls[outcome]++
	switch failed := outcome == Failed; {
	case failed && a.apiError == nil:
		a.log.Warn("API not reached", keyError, err)
	case !failed && a.apiError != nil:
		a.log.Info("API reached again")
	}
	a.apiError = nil
	if outcome == Failed {
		a.apiError = err
	}
}

// shown complains of a record that is another program's.
func (a *Agent) shown(seen Seen) {
	if seen.Foreign != a.foreign && seen.Foreign != "" {
		a.log.Error("record is not ours, and nobody will take it; give the address a record of its own, or delete this one",
			keyRecord, a.group, keyError, seen.Foreign)
	}
	a.foreign = seen.Foreign
}

// send signs a message. Without a key nobody would believe it.
func (a *Agent) send(action Action) {
	key, to := a.machine.Key(), action.Peer.Address
	if action.Message.Kind == ask.Answer {
		to = a.from
	}
	if key == nil || !to.IsValid() {
		return
	}
	a.tally.Sent[action.Message.Kind]++
	a.socket.Send(action.Message.Append(nil, a.group, key), to)
}

// deliver checks a datagram, outside the loop, and drops it when the loop is
// behind: a sender repeats what matters.
func (a *Agent) deliver(b []byte, from netip.AddrPort) {
	key := a.key.Load()
	if key == nil {
		return
	}
	message, err := ask.Parse(b, a.group, *key)
	heard := func(now time.Duration) []Action {
		if err != nil {
			a.tally.Refused++
			return nil
		}
		a.tally.Received[message.Kind]++
		a.from = from
		return a.machine.Heard(now, message)
	}
	a.inbox.put(heard, maxHeard)
}

// maxHeard bounds what waits for a loop that is behind.
const maxHeard = 64

// inbox is what the loop is to do.
type inbox struct {
	wake chan struct{} // of one

	mu    sync.Mutex
	queue []func(now time.Duration) []Action
}

// put adds f, unless as many as limit wait already.
func (i *inbox) put(f func(time.Duration) []Action, limit int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.queue) >= limit {
		return
	}
	i.queue = append(i.queue, f)
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

func (i *inbox) take() []func(time.Duration) []Action {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := i.queue
	i.queue = nil
	return all
}

package lease

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// ErrNotHeld is returned by Renew and Release when another has the Lease, or
// nobody.
var ErrNotHeld = errors.New("lease not held")

const (
	// DefaultDuration is what kube-controller-manager and kube-scheduler use.
	DefaultDuration = 15 * time.Second
	// marginOf is the part of Duration that the holder does not use, for clocks
	// that run at different rates: those of real machines differ by 0.05 % at
	// most (NTP slews no faster), so most of it is for the way back of an answer
	// to whoever asks Held.
	marginOf = 10
	// roundsOf is how often within Duration the Lease is looked at.
	roundsOf = 3
)

// Lock is one contender for a Lease. The fields are set before use; the methods
// may be called from several goroutines.
type Lock struct {
	// Client gives the client for the next request, such as Cluster.Client.
	Client func() (*kubeapi.Client, error)
	// Namespace and Name of the Lease, which is created when missing.
	Namespace, Name string
	// Identity differs from that of every other process; see NewIdentity.
	Identity string
	// Duration is in whole seconds; 0 means DefaultDuration.
	Duration time.Duration

	// attempt is held during an attempt, mu while a field below is touched.
	attempt sync.Mutex
	mu      sync.Mutex
	seen    Observed
	from    time.Time // not held before this
	until   time.Time // held before this
	version string    // of the record that seen holds
	absent  bool      // the Lease did not exist
	fresh   bool      // it did not exist, and a record of ours has not been seen since
	stale   bool      // the record must be read before it is written
	// transitions is how often the Lease changed hands, for people.
	transitions int32
	// failures counts attempts in a row that ended with an error.
	failures int

	now func() time.Time
}

// NewIdentity returns name and a suffix that no other process has.
func NewIdentity(name string) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // which cannot fail
	return name + "_" + hex.EncodeToString(b[:])
}

func (l *Lock) duration() time.Duration {
	if l.Duration <= 0 {
		return DefaultDuration
	}
	return max(time.Second, l.Duration.Truncate(time.Second))
}

func (l *Lock) clock() time.Time {
	if l.now != nil {
		return l.now()
	}
	return time.Now()
}

// Until is when the holder has to stop unless it renews before; zero when not held.
func (l *Lock) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.clock(); now.Before(l.from) || !now.Before(l.until) {
		return time.Time{}
	}
	return l.until
}

// Held says that this Lock has the Lease now. It asks nobody.
func (l *Lock) Held() bool { return !l.Until().IsZero() }

// Context ends with ctx, and when the Lease as it is held now runs out.
func (l *Lock) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(ctx, l.Until(), ErrNotHeld)
}

// Holder is the Identity of who had the Lease when it was last looked at.
func (l *Lock) Holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	record, _ := l.seen.Record()
	return record.Holder
}

// Acquire makes one attempt to take the Lease, or to renew it when it is held.
// It returns whether it is held now; with an error it may be, from before.
func (l *Lock) Acquire(ctx context.Context) (held bool, err error) {
	l.attempt.Lock()
	defer l.attempt.Unlock()
	ctx, cancel := context.WithTimeout(ctx, l.duration()/roundsOf)
	defer cancel()
	// A write that comes too late shows what came before; then once more.
	for range 2 {
		if err = l.try(ctx); kubeapi.Code(err) != http.StatusConflict {
			break
		}
	}
	if kubeapi.Code(err) == http.StatusConflict {
		err = nil // others are faster, which is no error
	}
	return l.Held(), err
}

func (l *Lock) try(ctx context.Context) error {
	client, err := l.Client()
	if err != nil {
		return fmt.Errorf("reach lease %s: %w", l.Name, err)
	}
	if !l.knowsItsOwn() {
		if err := l.look(ctx, client); err != nil {
			return err
		}
		if !l.mayTake() {
			return nil
		}
	}
	return l.take(ctx, client)
}

// Renew is Acquire for who has the Lease: it returns ErrNotHeld where it would
// have to be taken from another, or again.
func (l *Lock) Renew(ctx context.Context) error {
	if !l.Held() {
		return ErrNotHeld
	}
	held, err := l.Acquire(ctx)
	if err == nil && !held {
		err = ErrNotHeld
	}
	return err
}

// Release stops holding at once and tells the others.
func (l *Lock) Release(ctx context.Context) error {
	l.attempt.Lock()
	defer l.attempt.Unlock()
	if !l.stop() {
		return ErrNotHeld
	}
	client, err := l.Client()
	if err != nil {
		return fmt.Errorf("release lease %s: %w", l.Name, err)
	}
	// The version protects a successor.
	return l.free(ctx, client)
}

// Keep takes the Lease whenever it can be had, renews it, and releases it when
// ctx ends. changed is told when it was won or lost; the holder nevertheless
// asks Held or Context before it acts. report is told of each attempt.
func (l *Lock) Keep(ctx context.Context, changed func(held bool), report func(error)) {
	was := false
	tell := func() {
		if held := l.Held(); held != was {
			was = held
			changed(held)
		}
	}
	for ctx.Err() == nil {
		_, err := l.Acquire(ctx)
		if ctx.Err() != nil {
			break
		}
		report(err)
		tell()
		l.rest(ctx, err, tell)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = l.Release(last) // else it lapses
	tell()
}

// rest waits until the next attempt, and tells when the time runs out meanwhile.
func (l *Lock) rest(ctx context.Context, err error, tell func()) {
	wait, expiry := l.next(err)
	next := time.NewTimer(wait)
	defer next.Stop()
	expired := time.NewTimer(expiry)
	defer expired.Stop()
	for {
		select {
		case <-expired.C:
			tell()
		case <-next.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

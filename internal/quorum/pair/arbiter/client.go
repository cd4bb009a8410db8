package arbiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

var (
	// ErrAbsent: there is no record.
	ErrAbsent = errors.New("the arbiter has no record")
	// ErrRestored: the arbiter answers with less than it once did, as after
	// a backup was restored. Nobody may act on it.
	ErrRestored = errors.New("the arbiter has gone back")
	// ErrForeign: the record is that of another cluster or of other members.
	ErrForeign = errors.New("the record is not of this pair")
	// ErrUnreadable: what the arbiter has is no record.
	ErrUnreadable = errors.New("the arbiter's object is no record")
)

// putBack is what a person does about ErrRestored.
const putBack = "if it lost its record, see: holdfast pair arbiter restore --help"

// Client reads and changes the record through a Store. It is safe for use by
// several goroutines.
type Client struct {
	store Store
	by    string
	now   func() time.Time

	mu   sync.Mutex
	seen Record // generation 0: none
	keep func(Record) error
}

// NewClient reads and writes through store, as by (for people). seen is the newest
// record that was ever seen here, or the zero one; keep stores a newer one on the own
// disk before it is acted on: an arbiter that knows less has lost something.
func NewClient(store Store, by string, seen Record, keep func(Record) error) *Client {
	return &Client{store: store, by: by, now: time.Now, seen: seen, keep: keep}
}

// Held is a record as it was read, with the version that a change of it names.
type Held struct {
	Record
	version Version
}

// Read returns the record. ErrAbsent: there is none, and none was ever seen.
// ErrRestored: there was one that it lacks. ErrUnreachable, ErrDenied: see Store.
func (c *Client) Read(ctx context.Context) (Held, error) {
	for {
		before := c.Seen().Generation
		held, err := c.read(ctx)
		if !errors.Is(err, ErrRestored) || c.Seen().Generation == before {
			return held, err
		}
		// A change of ours was made while the answer was on its way, so the answer
		// may be older than what is known now with nothing gone back.
	}
}

func (c *Client) read(ctx context.Context) (Held, error) {
	data, version, err := c.store.Read(ctx)
	if err != nil {
		return Held{}, fmt.Errorf("read %s: %w", c.store.Name(), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if version == "" {
		if c.seen.Generation > 0 {
			return Held{}, fmt.Errorf("%w: %s has no record, generation %d was seen here; %s", ErrRestored, c.store.Name(), c.seen.Generation, putBack)
		}
		return Held{}, ErrAbsent
	}
	r, err := Decode(data)
	if err != nil {
		return Held{}, fmt.Errorf("%w: %s: %w; correct the URL, or give the pair an object of its own", ErrUnreadable, c.store.Name(), err)
	}
	if err := c.notice(r); err != nil {
		return Held{}, err
	}
	return Held{Record: r, version: version}, nil
}

// notice compares a record with what was seen, and remembers it. c.mu is held.
func (c *Client) notice(r Record) error {
	switch {
	case r.Generation == c.seen.Generation && r.Nonce == c.seen.Nonce:
		return nil
	case r.Generation <= c.seen.Generation:
		return fmt.Errorf("%w: %s has generation %d (nonce %.8s), generation %d (nonce %.8s) was seen here; %s",
			ErrRestored, c.store.Name(), r.Generation, r.Nonce, c.seen.Generation, c.seen.Nonce, putBack)
	}
	if err := c.keep(r); err != nil {
		return fmt.Errorf("keep generation %d: %w", r.Generation, err)
	}
	c.seen = r
	return nil
}

// Seen is the newest record seen; generation 0: none.
func (c *Client) Seen() Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

// Change replaces was by next, whose generation, nonce, author and time it fills
// in. The zero was means that there is no record yet.
//
// ErrLost: it is not what it was, somebody else came first. ErrUnknown: it cannot
// be told yet whether it was changed; a Read will, once it succeeds. Any other error: it
// was not changed.
func (c *Client) Change(ctx context.Context, was Held, next Record) (Held, error) {
	next.Version = RecordVersion
	next.Generation = was.Generation + 1
	next.Nonce = NewNonce()
	next.By = c.by
	next.Time = c.now().UTC().Truncate(time.Second)
	switch {
	case next.State != Solo:
		next.Since = time.Time{}
	case next.Since.IsZero():
		next.Since = next.Time
	}
	data, err := next.Encode()
	if err != nil {
		return Held{}, err
	}
	swapping, done := share(ctx)
	version, err := c.store.Swap(swapping, was.version, data)
	done()
	switch {
	case err == nil && version != "":
		c.mu.Lock()
		defer c.mu.Unlock()
		if err := c.notice(next); err != nil {
			return Held{}, fmt.Errorf("%w: it was made, but may not be acted on: %w", ErrUnknown, err)
		}
		return Held{Record: next, version: version}, nil
	case err == nil, errors.Is(err, ErrUnknown), errors.Is(err, ErrLost):
		// Lost to ourselves, too: a proxy that sent the change twice has the second
		// answer only.
		return c.settle(ctx, next, err)
	}
	return Held{}, fmt.Errorf("change %s: %w", c.store.Name(), err)
}

// share leaves a third of the time to find out how a change ended whose answer
// does not come.
func share(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)*2/3)
}

// settle finds out by a read how a change ended whose answer is missing.
func (c *Client) settle(ctx context.Context, next Record, cause error) (Held, error) {
	now, err := c.Read(ctx)
	switch {
	case err == nil && now.Nonce == next.Nonce:
		return now, nil
	case err == nil && now.Generation >= next.Generation:
		// Ours may have come first and been replaced since; it does not hold any more.
		return Held{}, fmt.Errorf("change %s: %w", c.store.Name(), ErrLost)
	}
	if errors.Is(cause, ErrLost) {
		return Held{}, fmt.Errorf("change %s: %w", c.store.Name(), cause)
	}
	// Also where the old record is still there: the request may be under way.
	cause = cmp.Or(cause, ErrUnknown)
	if err == nil {
		return Held{}, fmt.Errorf("change %s: %w; a read has generation %d still", c.store.Name(), cause, now.Generation)
	}
	return Held{}, fmt.Errorf("change %s: %w, nor to a read: %w", c.store.Name(), cause, err)
}

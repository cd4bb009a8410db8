package arbiter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// RoundsAtStart are those that an agent races before it rests on a store, RoundsByHand
	// those of `holdfast pair arbiter test`.
	RoundsAtStart = 5
	RoundsByHand  = 50
	// racers are the changes of one round. A store that looks first and writes then
	// lets two of so many through within a round or two.
	racers = 16
	// scratch is behind the record's name in that of the object that is raced for.
	// It stays, small as it is: to remove it is a right that nobody needs.
	scratch = "-selftest"
	// turn bounds each request: an arbiter that hung during one must not hold up a trial
	// when it is well again.
	turn = 5 * time.Second
	// absent is that of an object that never is.
	absent = "-selftest-absent"
)

// Trial is what a race showed.
type Trial struct {
	// Rounds that told something, Contended those that another test got in between,
	// or of which answers were missing.
	Rounds    int `json:"rounds"`
	Contended int `json:"contended"`
	// Slowest is the longest that a change took to be answered, with as many others.
	Slowest time.Duration `json:"-"`
}

// entry is what the scratch object holds.
type entry struct {
	Test   string `json:"test"`
	Round  int    `json:"round"`
	Writer int    `json:"writer"`
	Nonce  string `json:"nonce"`
}

func (e entry) encode() []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings and numbers
	}
	return append(b, '\n')
}

// Race finds out whether a store's compare-and-swap is one, on an object beside the
// record. In each round 16 changes of one version are sent at once: exactly one may
// succeed, and its content must be there after. Then a change of an old version, one that
// makes what is there, and one of what is not there must lose. ErrUnfit: the store failed.
// Any other error: it could not be tested, which says nothing about it.
func Race(ctx context.Context, s Store, rounds int) (Trial, error) {
	beside, err := s.Beside(scratch)
	if err != nil {
		return Trial{}, fmt.Errorf("test %s: %w", s.Name(), err)
	}
	defer func() { _ = beside.Close() }() // it shares the connections of s
	r := &race{store: beside, id: NewNonce()}
	err = r.run(ctx, rounds)
	if err == nil {
		err = r.losers(ctx, s)
	}
	if err != nil {
		return r.trial, fmt.Errorf("test %s: %w", s.Name(), err)
	}
	return r.trial, nil
}

type race struct {
	store Store
	id    string
	trial Trial
	old   Version // replaced by now
}

func (r *race) run(ctx context.Context, rounds int) error {
	_, version, err := r.store.Read(ctx)
	if err != nil {
		return err
	}
	// The second has a version to replace that is not "none".
	rounds = max(rounds, 2)
	for r.trial.Rounds < rounds {
		if r.trial.Contended > 3*rounds+10 {
			return fmt.Errorf("%d rounds of %d told nothing, as others changed the object meanwhile or answers were missing; try again later", r.trial.Contended, r.trial.Contended+r.trial.Rounds)
		}
		next, told, err := r.round(ctx, version)
		switch {
		case err != nil:
			return err
		case told:
			r.trial.Rounds++
			r.old = version
		default:
			r.trial.Contended++
			if err := pause(ctx); err != nil {
				return err
			}
		}
		version = next
	}
	return nil
}

// pause lets two tests of one store get out of step.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(rand.Int64N(int64(100 * time.Millisecond)))):
		return nil
	}
}

// outcome is how one change ended.
type outcome struct {
	data    []byte
	version Version
	err     error
	took    time.Duration
}

// round sends all changes and judges what is there after. told is false where
// somebody else or a missing answer leaves the round open.
func (r *race) round(ctx context.Context, was Version) (next Version, told bool, err error) {
	all := r.send(ctx, was)
	data, next, err := r.store.Read(ctx)
	if err != nil {
		return "", false, err
	}
	won, unknown, err := r.count(all)
	if err != nil {
		return "", false, err
	}
	if len(won) > 1 {
		return "", false, fmt.Errorf("%w: of %d changes to one version %d succeeded; it does not heed If-Match, or not atomically", ErrUnfit, racers, len(won))
	}
	var stored entry
	ours := json.Unmarshal(data, &stored) == nil && stored.Test == r.id
	switch {
	case len(won) == 1 && string(won[0].data) == string(data):
		if v := won[0].version; v != "" && v != next {
			return "", false, fmt.Errorf("%w: a change was given version %.60q, and reads have %.60q for the same content", ErrUnfit, v, next)
		}
		return next, true, nil
	case len(won) == 1 && (ours || len(data) == 0):
		return "", false, fmt.Errorf("%w: a change succeeded, and a read after it has something older or another change", ErrUnfit)
	case len(won) == 0 && unknown == 0 && ours && next != was:
		return "", false, fmt.Errorf("%w: it refused all of %d changes to one version and made one of them", ErrUnfit, racers)
	case len(won) == 0 && unknown == 0 && next == was:
		return "", false, fmt.Errorf("%w: it refused all of %d changes to the version that it has", ErrUnfit, racers)
	}
	return next, false, nil
}

// send starts all changes at once.
func (r *race) send(ctx context.Context, was Version) []outcome {
	all := make([]outcome, racers)
	gate := make(chan struct{})
	var done sync.WaitGroup
	for i := range all {
		done.Go(func() {
			o := &all[i]
			o.data = entry{Test: r.id, Round: r.trial.Rounds + r.trial.Contended, Writer: i, Nonce: NewNonce()}.encode()
			<-gate
			began := time.Now()
			ctx, cancel := context.WithTimeout(ctx, turn)
			defer cancel()
			o.version, o.err = r.store.Swap(ctx, was, o.data)
			o.took = time.Since(began)
		})
	}
	close(gate)
	done.Wait()
	return all
}

// count sorts outcomes. An error of another kind than lost and unknown ends the test.
func (r *race) count(all []outcome) (won []outcome, unknown int, err error) {
	for _, o := range all {
		r.trial.Slowest = max(r.trial.Slowest, o.took)
		switch {
		case o.err == nil:
			won = append(won, o)
		case errors.Is(o.err, ErrLost):
		case errors.Is(o.err, ErrUnknown):
			unknown++
		default:
			return nil, 0, o.err
		}
	}
	return won, unknown, nil
}

// losers are three changes that may not succeed.
func (r *race) losers(ctx context.Context, s Store) error {
	nowhere, err := s.Beside(absent)
	if err != nil {
		return err
	}
	defer func() { _ = nowhere.Close() }() // it shares the connections of s
	for _, l := range []struct {
		store Store
		was   Version
		what  string
	}{
		{r.store, r.old, "a change of a version that had been replaced"},
		{r.store, "", "a change that makes the object, where there is one"},
		{nowhere, r.old, "a change of an object that is not there"},
	} {
		_, err := l.store.Swap(ctx, l.was, entry{Test: r.id, Writer: -1, Nonce: NewNonce()}.encode())
		switch {
		case err == nil:
			return fmt.Errorf("%w: %s succeeded; it does not heed If-Match and If-None-Match", ErrUnfit, l.what)
		case !errors.Is(err, ErrLost):
			return fmt.Errorf("%s: %w", l.what, err)
		}
	}
	return nil
}

package pair

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
)

// lookArbiter reads the record when that is due.
func (o *observer) lookArbiter(ctx context.Context) error {
	o.mu.Lock()
	v, within, tried := o.view, o.readWithin, o.tried
	due := !v.Arbiter.Known || v.Arbiter.Trouble != Readable || o.clock()-v.Arbiter.Asked >= within
	if pause := min(within, hurryEvery); !due || (tried > 0 && o.clock()-tried < pause) {
		o.mu.Unlock()
		return nil
	}
	o.tried = o.clock()
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, arbiterTimeout)
	defer cancel()
	sent := o.clock()
	held, err := o.arbiter.Read(ctx)
	o.learn(sent, held, err)
	if errors.Is(err, arbiter.ErrAbsent) {
		return nil
	}
	return err
}

// learn takes the answer to a read that was sent at a time.
func (o *observer) learn(sent time.Duration, held arbiter.Held, err error) {
	o.change(func(v *View) bool {
		was := v.Arbiter
		a := &v.Arbiter
		switch {
		case err == nil, errors.Is(err, arbiter.ErrAbsent):
			if sent < a.Asked {
				return false // a newer answer came first
			}
			o.held = held
			*a = Arbiter{Known: true, Record: held.Record, Asked: sent, Untried: a.Untried, Unfit: a.Unfit}
		case errors.Is(err, arbiter.ErrRestored), errors.Is(err, arbiter.ErrUnreadable), errors.Is(err, arbiter.ErrUnfit):
			a.Trouble, a.Detail = Wrong, err.Error()
		default:
			a.Trouble, a.Detail = Silent, err.Error()
		}
		return was.Record != a.Record || was.Trouble != a.Trouble || !was.Known || !v.Process.Running
	})
}

const (
	// raceTimeout and restsTimeout bound the trials of the arbiter.
	raceTimeout, restsTimeout = 30 * time.Second, 10 * time.Second
	// notTried is said until the first trial has come to an end.
	notTried = "that has just begun"
)

// tryArbiter finds out, once, whether the arbiter may decide.
func (o *observer) tryArbiter(ctx context.Context) error {
	v := o.see()
	if !v.Arbiter.Known || v.Arbiter.Trouble != Readable {
		return nil // the read says why
	}
	if !o.raced {
		ctx, cancel := context.WithTimeout(ctx, raceTimeout)
		defer cancel()
		_, err := arbiter.Race(ctx, o.store, arbiter.RoundsAtStart)
		o.judge(err)
		o.raced = err == nil
		return err
	}
	if o.apart || !v.quorate() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, restsTimeout)
	defer cancel()
	cli, err := o.member().Client(ctx)
	if err != nil {
		return err
	}
	err = arbiter.Rests(ctx, o.store, cli)
	if err == nil || errors.Is(err, arbiter.ErrUnfit) {
		o.judge(err)
	}
	o.apart = err == nil
	return err
}

// judge takes the outcome of a trial.
func (o *observer) judge(err error) {
	o.change(func(v *View) bool {
		v.Arbiter.Untried, v.Arbiter.Unfit = "", ""
		switch {
		case errors.Is(err, arbiter.ErrUnfit):
			v.Arbiter.Unfit = err.Error()
		case err != nil:
			v.Arbiter.Untried = err.Error()
		}
		return true
	})
}

// changed takes the record that an own change made.
func (o *observer) changed(held arbiter.Held) {
	o.change(func(v *View) bool {
		o.held = held
		v.Arbiter = Arbiter{Known: true, Record: held.Record, Asked: v.Arbiter.Asked, Untried: v.Arbiter.Untried, Unfit: v.Arbiter.Unfit}
		return true
	})
}

// rereadNow reads the record whether or not it is old.
func (o *observer) rereadNow(ctx context.Context) {
	o.mu.Lock()
	o.readWithin, o.tried = 0, 0
	o.mu.Unlock()
	_ = o.lookArbiter(ctx) // its loop says what is wrong
}

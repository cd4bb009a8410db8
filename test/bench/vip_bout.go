package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/test/caller"
)

// round is what a client met with in one.
type round struct {
	seen caller.Seen
	// took is what the case is about, in milliseconds: the outage where the case
	// says nothing else; nil when it never ended.
	took *float64
	// gone is when the address had left the machine it was taken from; nil: never
	// while anybody watched.
	gone *float64
	// again is a second outage, when the first holder has come back.
	again float64
	// stale says that the client's kernel believed the wrong machine at the end.
	stale bool
}

// act does something to the holder, machine 1, in round k of n. What it returns
// was measured from the moment when it began.
type act func(ctx context.Context, a *arena, r rival, k, n int) (round, error)

// errInconclusive is of a round in which the client itself stood still.
var errInconclusive = errors.New("inconclusive")

const (
	// stood is how long the client may ask nothing in a round that counts.
	stood = 25 * time.Millisecond
	// retries of rounds that do not count, for each that does.
	retries = 3
)

// bout lets rivals do the same in turn, n times, so that whatever else the
// machine does meets all of them. Rounds stand by rival.
func (a *arena) bout(ctx context.Context, rivals []rival, n int, do act) ([][]round, error) {
	got := make([][]round, len(rivals))
	spare := retries * n * len(rivals)
	for k := range n {
		for i, r := range rivals {
			for {
				one, err := a.try(ctx, r, k, n, do)
				if errors.Is(err, errInconclusive) && spare > 0 && ctx.Err() == nil {
					spare--
					fmt.Fprintf(os.Stderr, "bench:   %s: %v, %s: again\n", r.name, err, load())
					continue
				}
				if err != nil {
					return got, fmt.Errorf("%s: %w", r.name, err)
				}
				got[i] = append(got[i], one)
				break
			}
		}
	}
	return got, nil
}

// try is one round: the first machine holds the address, the others are its
// backups, and something happens.
func (a *arena) try(ctx context.Context, r rival, k, n int, do act) (round, error) {
	defer a.stop()
	if err := a.set(ctx, r); err != nil {
		return round{}, err
	}
	one, err := do(ctx, a, r, k, n)
	if err != nil {
		return one, err
	}
	limit := stood
	if one.took != nil { // beside an outage of seconds it does not matter
		limit = max(limit, time.Duration(*one.took/100*float64(time.Millisecond)))
	}
	if one.seen.Stood > limit {
		return one, fmt.Errorf("%w: the client stood still for %s", errInconclusive, one.seen.Stood)
	}
	fmt.Fprintf(os.Stderr, "bench:   %s: %s ms, %d lost, two at once %s, gone after %s ms, again %.1f ms, stale %t, moves %v, client stood %s, %s\n",
		r.name, figure(one.took, ""), one.seen.Lost, one.seen.Both.Round(100*time.Microsecond), figure(one.gone, ""), one.again, one.stale,
		one.seen.Moves, one.seen.Stood.Round(100*time.Microsecond), load())
	return one, nil
}

// set makes machine 1 the holder and the others its backups.
func (a *arena) set(ctx context.Context, r rival) error {
	if err := a.reset(); err != nil {
		return err
	}
	a.rounds++
	a.client.Hush(r.virtual)
	if err := r.start(a, 1); err != nil {
		return err
	}
	asked := time.Now()
	err := until(ctx, 20*time.Second, "machine 1 answers", func() (bool, error) {
		if c := a.holder(1); c.gone() {
			return false, fmt.Errorf("it has ended: %s", c.tail())
		}
		return a.on(1) && a.speaks(r) && a.client.Last() == 1 && a.client.Neighbor(prize) == r.believes(a, 1), nil
	})
	if err != nil {
		return fmt.Errorf("%w; it says: %s", err, a.holder(1).tail())
	}
	for i := 2; i <= a.machines; i++ {
		if err := r.start(a, i); err != nil {
			return err
		}
	}
	if !pause(ctx, r.settle) {
		return ctx.Err()
	}
	if s := a.client.Since(asked); !a.speaks(r) || a.client.Last() != 1 || a.client.Neighbor(prize) != r.believes(a, 1) {
		return fmt.Errorf("%w: machine 1 did not keep the address: moves %v", errInconclusive, s.Moves)
	}
	return nil
}

// speaks says whether it is machine 1 that sends adverts, where anybody does.
func (a *arena) speaks(r rival) bool {
	return r.interval == 0 || a.adverts.sender(vrid) == a.segment.Station(1).Four
}

// watch waits until another machine than the first answers, and for a while
// longer, and judges.
func (a *arena) watch(ctx context.Context, r rival, begun time.Time, patience, after time.Duration) (round, error) {
	err := a.answered(ctx, patience, "another machine answers", func(by int) bool { return by > 1 })
	if ctx.Err() != nil {
		return round{}, ctx.Err()
	}
	if !pause(ctx, after) {
		return round{}, ctx.Err()
	}
	one := round{seen: a.client.Since(begun)}
	if err == nil {
		gap := ms(one.seen.Gap)
		one.took = &gap
	}
	one.stale = a.client.Neighbor(prize) != r.believes(a, a.client.Last())
	return one, nil
}

// tookOf is for quantiles: what never happened is worse than all else.
func tookOf(all []round) []*float64 { return pick(all, func(r round) *float64 { return r.took }) }

func pick(all []round, f func(round) *float64) []*float64 {
	var v []*float64
	for _, r := range all {
		v = append(v, f(r))
	}
	return sorted(v)
}

// sorted puts what never happened last.
func sorted(v []*float64) []*float64 {
	slices.SortFunc(v, func(x, y *float64) int {
		switch {
		case x == nil && y == nil:
			return 0
		case x == nil || y != nil && *x > *y:
			return 1
		case y == nil || *x < *y:
			return -1
		}
		return 0
	})
	return v
}

// middle and last of sorted values.
func middle(v []*float64) *float64 {
	if len(v) == 0 {
		return nil
	}
	return v[len(v)/2]
}

func last(v []*float64) *float64 {
	if len(v) == 0 {
		return nil
	}
	return v[len(v)-1]
}

// staleRow counts rounds after which the client believed the wrong machine.
func staleRow(name string, rivals []rival, got [][]round) Row {
	count := func(all []round) (n float64) {
		for _, r := range all {
			if r.stale {
				n++
			}
		}
		return n
	}
	note := fmt.Sprintf("of %d rounds; the client's neighbour entry after each", len(got[0]))
	for i := 2; i < len(rivals); i++ {
		note += fmt.Sprintf("; %s %.0f", rivals[i].name, count(got[i]))
	}
	row := atMost(name, "rounds", count(got[0]), 0, note)
	if len(rivals) > 1 {
		n := count(got[1])
		row = row.against(rivals[1].name, &n)
	}
	return row
}

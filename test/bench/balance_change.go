package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// reloaded changes the settings under load: a third backend comes, then the
// order changes.
func (g *ground) reloaded(ctx context.Context) ([]Row, error) {
	return g.changeRows(ctx, "reload", func(ctx context.Context, s *stage, turn int) error {
		now := s.setup
		now.backends = addresses(s.backends)
		if turn%2 == 1 {
			slices.Reverse(now.backends)
		}
		if err := s.balancer.reload(ctx, now); err != nil {
			return err
		}
		if turn == 0 { // in force, not only read
			return s.client.seen(ctx, backendCount)
		}
		return nil
	})
}

// upgraded puts a new process in the place of the old one under load.
func (g *ground) upgraded(ctx context.Context) ([]Row, error) {
	return g.changeRows(ctx, "upgrade", func(ctx context.Context, s *stage, _ int) error {
		return s.balancer.upgrade(ctx)
	})
}

type change func(ctx context.Context, s *stage, turn int) error

func (g *ground) changeRows(ctx context.Context, name string, do change) ([]Row, error) {
	makers, turns := g.makers(), g.times(5)
	failed, lost := make([]float64, len(makers)), make([]int, len(makers))
	sum := 0
	for i, m := range makers {
		b := m()
		attempts, err := g.changed(ctx, b, turns, do, &lost[i])
		if err != nil {
			return nil, err
		}
		for _, a := range attempts {
			if a.err != nil {
				failed[i]++
			}
		}
		sum = len(attempts)
		fmt.Fprintf(os.Stderr, "bench:   %s: %.0f failed of %d, %d kept connections lost, %s\n", b.name(), failed[i], len(attempts), lost[i], load())
	}
	// A kept connection that is lost is a failed one, too.
	for i := range failed {
		failed[i] += float64(lost[i])
	}
	return []Row{atMost("balance-"+name+"-failed", "connections", failed[0], 0, fmt.Sprintf(
		"%d times at %d connections/s, %d connections, and %d kept ones, of which lost: %d, peer %d; %s",
		turns, flowRate, sum, keptCount, lost[0], lost[1], load())).against(peerName, &failed[1])}, nil
}

func (g *ground) changed(ctx context.Context, b balancer, turns int, do change, lost *int) ([]attempt, error) {
	s, err := g.setStage(ctx, b, backendCount-1, flowRate, true)
	if err != nil {
		return nil, err
	}
	defer s.strike()
	for turn := range turns {
		if err := do(ctx, s, turn); err != nil {
			return nil, fmt.Errorf("%s: %w", b.name(), err)
		}
		if !pause(ctx, 3*time.Second) {
			return nil, ctx.Err()
		}
	}
	attempts, _ := s.finish()
	_, *lost, _ = s.kept.toll(0)
	return attempts, nil
}

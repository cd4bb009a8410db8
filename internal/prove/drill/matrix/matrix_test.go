package matrix

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

func TestWaves(t *testing.T) {
	const s = time.Second
	runs := []Run{
		{Scenario: "a", Cost: 1, Lasts: 30 * s}, {Scenario: "k", Cost: 4, Lasts: 90 * s}, {Scenario: "b", Cost: 1, Lasts: 50 * s},
		{Scenario: "p", Cost: 2, Lasts: 60 * s}, {Scenario: "q", Cost: 2, Lasts: 40 * s}, {Scenario: "fine", Cost: Alone, Lasts: 20 * s},
	}
	var got [][]string
	waves := Waves(runs, 4)
	for _, w := range waves {
		var names []string
		for _, r := range w {
			names = append(names, r.Scenario)
		}
		got = append(got, names)
	}
	want := [][]string{{"b", "a", "p"}, {"q"}, {"k"}, {"fine"}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("waves %v, want %v", got, want)
	}
	if d := Lasts(waves); d != 210*s {
		t.Errorf("they last %s, want 3m30s", d)
	}
}

// Whatever the runs are: each is in one wave, and no wave is fuller than the room.
func TestWavesOfAnything(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 7))
		room := 1 + rng.IntN(8)
		var runs []Run
		for i := range rng.IntN(60) {
			runs = append(runs, Run{Scenario: string(rune('a' + i)), Cost: 1 + rng.IntN(10), Lasts: time.Duration(rng.IntN(100)) * time.Second})
		}
		seen := map[string]int{}
		for _, w := range Waves(runs, room) {
			cost := 0
			for _, r := range w {
				seen[r.Scenario]++
				cost += r.Cost
			}
			if cost > room && len(w) > 1 || len(w) == 0 {
				t.Fatalf("seed %d: a wave of %d runs costs %d, the room is %d", seed, len(w), cost, room)
			}
		}
		for _, r := range runs {
			if seen[r.Scenario] != 1 {
				t.Fatalf("seed %d: run %s is in %d waves", seed, r.Scenario, seen[r.Scenario])
			}
		}
	}
}

// Bounds of milliseconds are measured on a machine that does nothing else.
func TestFineDrillsAreAlone(t *testing.T) {
	for name, want := range map[string]int{
		"partial-split": costEtcd, "balance-killed": costAPIServers, "orphan-zone": costKubernetes, "vip-handover": Alone,
	} {
		s, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Case("main")
		if err != nil {
			t.Fatal(err)
		}
		if got := CostOf(c); got != want {
			t.Errorf("%s costs %d, want %d", name, got, want)
		}
	}
}

func TestGateOpensWhenAllHaveComeOrLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(3)
		var through atomic.Int32
		var all sync.WaitGroup
		for range 2 {
			pass := g.Pass()
			all.Go(func() {
				if err := pass.Come(t.Context()); err != nil {
					t.Error(err)
				}
				through.Add(1)
			})
		}
		synctest.Wait()
		if n := through.Load(); n != 0 {
			t.Fatalf("%d went through before the third came", n)
		}
		third := g.Pass()
		third.Leave()
		third.Leave() // counts once
		all.Wait()
		if through.Load() != 2 {
			t.Errorf("%d went through, want 2", through.Load())
		}
	})
}

func TestGateEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewGate(2).Pass().Come(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

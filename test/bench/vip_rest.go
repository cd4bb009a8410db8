package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

const (
	memoryBar    = 25 // MB of private memory
	memoryBGPBar = 40
	cpuBar       = 1 // % of a core
)

// atRest measures what holders use that have nothing to do: memory after a
// while, and processor time of it.
func (y *yard) atRest(ctx context.Context) ([]Row, error) {
	a, err := y.arena(3)
	if err != nil {
		return nil, err
	}
	defer a.close()
	if err := a.router(ctx, a.routerConfig()); err != nil {
		return nil, err
	}
	watch := time.Minute
	if y.quick {
		watch = 10 * time.Second
	}
	path := fmt.Sprintf("    health: [{name: path, kind: bfd, address: %s, interval: 100ms, multiplier: 3}]\n", a.routerStation().Four)
	rivals := []rival{ourVRRP(endInterval, path), keepalived(endInterval, "", ""), vrrpd(endInterval), ourAnycast()}
	used := make([][]usage, len(rivals))
	for range y.times(5) {
		for i, r := range rivals {
			u, err := a.using(ctx, r, watch/time.Duration(y.times(5)))
			for spare := retries; errors.Is(err, errInconclusive) && spare > 0; spare-- {
				u, err = a.using(ctx, r, watch/time.Duration(y.times(5)))
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.name, err)
			}
			used[i] = append(used[i], u)
		}
	}
	return restingRows(rivals, used, watch), nil
}

// usage is of all processes of the holder: MB and % of a core.
type usage struct{ private, rss, cpu float64 }

func (a *arena) using(ctx context.Context, r rival, watch time.Duration) (usage, error) {
	defer a.stop()
	var err error
	if r.spread {
		err = a.spread(ctx, r)
	} else {
		err = a.set(ctx, r)
	}
	if err != nil {
		return usage{}, err
	}
	if !pause(ctx, 3*time.Second) { // start-up is not rest
		return usage{}, ctx.Err()
	}
	before, err := a.reading(1)
	if err != nil {
		return usage{}, err
	}
	from := time.Now()
	if !pause(ctx, watch) {
		return usage{}, ctx.Err()
	}
	after, err := a.reading(1)
	u := usage{after.private, after.rss, 100 * (after.cpu - before.cpu) / time.Since(from).Seconds()}
	fmt.Fprintf(os.Stderr, "bench:   %s: %.2f MB private, %.1f MB VmRSS, %.2f %% of a core, %s\n", r.name, u.private, u.rss, u.cpu, load())
	return u, err
}

// reading sums up what the processes of a machine use.
func (a *arena) reading(i int) (sum reading, err error) {
	for _, c := range a.running[i] {
		for _, pid := range family(c.pid()) {
			one, err := process(pid)
			if err != nil {
				return sum, err
			}
			sum.private, sum.rss, sum.cpu = sum.private+one.private, sum.rss+one.rss, sum.cpu+one.cpu
		}
	}
	return sum, nil
}

func restingRows(rivals []rival, used [][]usage, watch time.Duration) []Row {
	most := func(i int, f func(usage) float64) *float64 {
		var v []float64
		for _, u := range used[i] {
			v = append(v, f(u))
		}
		m := slices.Max(v)
		return &m
	}
	middle := func(i int) float64 {
		var v []float64
		for _, u := range used[i] {
			v = append(v, u.cpu)
		}
		return median(v)
	}
	private, rss := func(u usage) float64 { return u.private }, func(u usage) float64 { return u.rss }
	n := len(used[0])
	beside := middle(1)
	return []Row{
		within("vip-memory", "MB", most(0, private), memoryBar, fmt.Sprintf("RssAnon+RssShmem, worst of %d holders; adverts every 100 ms and BFD 100 ms x 3; VmRSS %.1f MB, peer %.1f MB of 2 processes; %s %.1f MB of 2",
			n, *most(0, rss), *most(1, rss), rivals[2].name, *most(2, private))).against(rivals[1].name, most(1, private)),
		within("vip-memory-bgp", "MB", most(3, private), memoryBGPBar, fmt.Sprintf("RssAnon+RssShmem, worst of %d; BGP and BFD with one router; VmRSS %.1f MB", n, *most(3, rss))),
		atMost("vip-cpu", "% of a core", middle(0), cpuBar, fmt.Sprintf("median of %d holders, %s each; adverts every 100 ms and BFD 100 ms x 3; the peer without BFD; %s without BFD %.2f %%; %s",
			n, watch/time.Duration(n), rivals[2].name, middle(2), load())).against(rivals[1].name, &beside),
	}
}

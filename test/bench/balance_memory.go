package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// crowd is how many connections stand open. A descriptor each for the client,
// for the backend, and two for the balancer: below 20,000 for every process.
const crowd = 4000

// memory measures balancers that only hold what they have.
func (g *ground) memory(ctx context.Context) ([]Row, error) {
	makers, runs := g.makers(), g.times(5)
	idle, each, full, rss := make([][]float64, len(makers)), make([][]float64, len(makers)), make([][]float64, len(makers)), make([][]float64, len(makers))
	for range runs {
		for i, m := range makers {
			at, err := g.atRest(ctx, m())
			if err != nil {
				return nil, err
			}
			before, after, err := g.crowded(ctx, m())
			if err != nil {
				return nil, err
			}
			idle[i], rss[i] = append(idle[i], at.private), append(rss[i], at.rss)
			each[i] = append(each[i], (after.private-before.private)*1024/crowd)
			full[i] = append(full[i], after.private)
		}
	}
	most := func(v [][]float64, i int) *float64 { m := slices.Max(v[i]); return &m }
	note := fmt.Sprintf("RssAnon+RssShmem, worst of %d processes", runs)
	return []Row{
		within("balance-rss-idle", "MB", most(idle, 0), 15,
			fmt.Sprintf("%s; 3 backends checked over TLS; VmRSS %.1f MB, peer %.1f MB", note, *most(rss, 0), *most(rss, 1))).
			against(peerName, most(idle, 1)),
		within("balance-rss-per-connection", "kB", most(each, 0), 25,
			fmt.Sprintf("%s; %d idle connections after one exchange each", note, crowd)).against(peerName, most(each, 1)),
		within("balance-rss-4000", "MB", most(full, 0), 100, note+"; whole process with these").against(peerName, most(full, 1)),
	}, nil
}

// atRest lets a balancer check three backends over TLS and do nothing else.
func (g *ground) atRest(ctx context.Context, b balancer) (reading, error) {
	s, err := g.backends(ctx, "tls", backendCount)
	if err != nil {
		return reading{}, err
	}
	defer end(s)
	defer b.stop()
	if err := b.start(ctx, setup{port: g.port(), backends: addresses(s), tls: true}); err != nil {
		return reading{}, err
	}
	if !pause(ctx, g.window(8*time.Second, 4*time.Second)) {
		return reading{}, ctx.Err()
	}
	at, err := process(b.pid())
	fmt.Fprintf(os.Stderr, "bench:   %s: idle %.2f MB private, %.1f MB VmRSS\n", b.name(), at.private, at.rss)
	return at, err
}

// crowded reads the memory before and after the crowd has come.
func (g *ground) crowded(ctx context.Context, b balancer) (before, after reading, err error) {
	s, err := g.backends(ctx, "idle", backendCount)
	if err != nil {
		return before, after, err
	}
	defer end(s)
	defer b.stop()
	port := g.port()
	if err := b.start(ctx, setup{port: port, backends: addresses(s)}); err != nil {
		return before, after, err
	}
	if !pause(ctx, 3*time.Second) {
		return before, after, ctx.Err()
	}
	if before, err = process(b.pid()); err != nil {
		return before, after, err
	}
	open, err := gather(local(port), crowd)
	defer func() {
		for _, r := range open {
			_ = unix.Close(int(r))
		}
	}()
	if err != nil {
		return before, after, fmt.Errorf("%s: %w", b.name(), err)
	}
	if !pause(ctx, 3*time.Second) {
		return before, after, ctx.Err()
	}
	after, err = process(b.pid())
	fmt.Fprintf(os.Stderr, "bench:   %s: %d connections: %.2f MB before, %.2f MB after, VmRSS %.1f MB\n", b.name(), crowd, before.private, after.private, after.rss)
	return before, after, err
}

// gather opens n connections that each have exchanged a message.
func gather(to netip.AddrPort, n int) ([]raw, error) {
	var open []raw
	request, got := message(wantReply), make([]byte, messageSize)
	for range n {
		r, err := dialRaw(to)
		if err != nil {
			return open, err
		}
		open = append(open, r)
		if err := exchange(r, request, got); err != nil {
			return open, fmt.Errorf("connection %d: %w", len(open), err)
		}
	}
	return open, nil
}

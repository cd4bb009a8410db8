package main

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

const (
	handoverBar = 5    // ms
	goneBar     = 2500 // ms: 3 adverts until the gate shuts, 2 s of lifetime
	// bothBar is one advert and the way there and back.
	bothBar = 101
)

const endInterval = 100 * time.Millisecond

// handover ends the holder in order.
func (y *yard) handover(ctx context.Context) ([]Row, error) {
	a, err := y.arena(3)
	if err != nil {
		return nil, err
	}
	defer a.close()
	rivals := []rival{ourVRRP(endInterval, ""), keepalived(endInterval, "", ""), vrrpd(endInterval)}
	got, err := a.bout(ctx, rivals, y.times(11), terminate)
	if err != nil {
		return nil, err
	}
	ours, second, third := tookOf(got[0]), tookOf(got[1]), tookOf(got[2])
	note := fmt.Sprintf("SIGTERM, median of %d, adverts every %s; worst %s ms, peer %s ms; %s", len(ours), endInterval, figure(last(ours), ""), figure(last(second), ""), load())
	rows := []Row{
		within("vip-handover", "ms", middle(ours), handoverBar, note).against(rivals[1].name, middle(second)),
		reportedMaybe("vip-handover-frr", "ms", middle(ours), fmt.Sprintf("as above; worst of the peer %s ms", figure(last(third), ""))).against(rivals[2].name, middle(third)),
		staleRow("vip-handover-stale", rivals, got),
	}
	released, err := a.bout(ctx, rivals[:1], y.times(11), release)
	if err != nil {
		return rows, err
	}
	v := tookOf(released[0])
	return append(rows, within("vip-handover-release", "ms", middle(v), handoverBar,
		fmt.Sprintf("holdfast vip release, median of %d; worst %s ms; %s", len(v), figure(last(v), ""), load()))), nil
}

func terminate(ctx context.Context, a *arena, r rival, _, _ int) (round, error) {
	begun := time.Now()
	if err := a.holder(1).signal(syscall.SIGTERM); err != nil {
		return round{}, err
	}
	return a.watch(ctx, r, begun, 30*time.Second, 500*time.Millisecond)
}

func release(ctx context.Context, a *arena, r rival, _, _ int) (round, error) {
	begun := time.Now()
	out, err := exec.CommandContext(ctx, a.y.binary, "vip", "release", "api", "--control", a.socket(1)).CombinedOutput()
	if err != nil {
		return round{}, fmt.Errorf("release: %w: %s", err, out)
	}
	return a.watch(ctx, r, begun, 5*time.Second, 500*time.Millisecond)
}

// leaseHandover is the same by Lease.
func (y *yard) leaseHandover(ctx context.Context) ([]Row, error) {
	rivals := []rival{ourLease(), slowElection()}
	got, err := y.byLease(ctx, rivals, y.times(leaseRounds), terminate)
	if err != nil {
		return nil, err
	}
	ours, theirs := tookOf(got[0]), tookOf(got[1])
	return []Row{
		within("vip-lease-handover", "ms", middle(ours), handoverBar, leaseNote(ours, theirs, "SIGTERM")).against(rivals[1].name, middle(theirs)),
		staleRow("vip-lease-handover-stale", rivals, got),
	}, nil
}

func (y *yard) killed(ctx context.Context) ([]Row, error) {
	return y.struck(ctx, "vip-killed", syscall.SIGKILL)
}

func (y *yard) stopped(ctx context.Context) ([]Row, error) {
	return y.struck(ctx, "vip-stopped", syscall.SIGSTOP)
}

// struck kills or stops the programs of the holder while its kernel is well.
func (y *yard) struck(ctx context.Context, name string, s syscall.Signal) ([]Row, error) {
	a, err := y.arena(3)
	if err != nil {
		return nil, err
	}
	defer a.close()
	rivals := []rival{ourVRRP(endInterval, ""), keepalived(endInterval, "", ""), vrrpd(endInterval)}
	got, err := a.bout(ctx, rivals, y.times(5), func(ctx context.Context, a *arena, r rival, k, n int) (round, error) {
		if err := a.adverts.phase(ctx, time.Duration((float64(k)+0.5)/float64(n)*float64(r.interval))); err != nil {
			return round{}, err
		}
		return a.strike(ctx, r, s)
	})
	if err != nil {
		return nil, err
	}
	return struckRows(name, rivals, got, s == syscall.SIGSTOP), nil
}

// strike sends the signal, and where the programs can go on, lets them.
func (a *arena) strike(ctx context.Context, r rival, s syscall.Signal) (round, error) {
	begun := time.Now()
	a.signalAll(1, s)
	one, err := a.watch(ctx, r, begun, 2*time.Second, 0)
	if err != nil {
		return one, err
	}
	for one.gone == nil && time.Since(begun) < 2*goneBar*time.Millisecond && ctx.Err() == nil {
		if !a.on(1) {
			one.gone = since(begun, time.Now())
		}
		pause(ctx, 5*time.Millisecond)
	}
	one.seen = a.client.Since(begun)
	if s == syscall.SIGSTOP {
		begun = time.Now()
		a.signalAll(1, syscall.SIGCONT)
		if !pause(ctx, 1500*time.Millisecond) {
			return one, ctx.Err()
		}
		one.again = ms(a.client.Since(begun).Gap)
	}
	one.stale = a.client.Neighbor(prize) != r.believes(a, a.client.Last())
	return one, nil
}

func struckRows(name string, rivals []rival, got [][]round, continued bool) []Row {
	n := len(got[0])
	row := func(suffix, what string, f func(round) *float64, at func([]*float64) *float64, bar float64) Row {
		ours, second, third := pick(got[0], f), pick(got[1], f), pick(got[2], f)
		return within(name+suffix, "ms", at(ours), bar, fmt.Sprintf("%s of %d; %s %s ms; %s", what, n, rivals[2].name, figure(at(third), ""), load())).
			against(rivals[1].name, at(second))
	}
	both := func(r round) *float64 { v := ms(r.seen.Both); return &v }
	rows := []Row{
		row("", "outage, median", func(r round) *float64 { return r.took }, middle, silentBar),
		row("-gone", "until the address has left the machine, worst", func(r round) *float64 { return r.gone }, last, goneBar),
		row("-both", "two machines answering ARP at once, worst", both, last, bothBar),
	}
	if continued {
		rows = append(rows, row("-continued", "outage when it goes on, worst", func(r round) *float64 { return &r.again }, last, handoverBar))
	}
	return append(rows, staleRow(name+"-stale", rivals, got))
}

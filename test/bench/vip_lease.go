package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// leaseRounds is how often each round of an election by Lease is done: one with
// 15/10/2 takes half a minute.
const leaseRounds = 5

// lease is the name of the Lease of this round: what an earlier round left does
// not matter.
func (a *arena) lease() string { return fmt.Sprintf("address-%d", a.rounds) }

// ourLease is ours by a Lease of Kubernetes, with the default timers. The
// challengers want a whole lease of unbroken contact before they may act.
func ourLease() rival {
	return rival{name: "holdfast", settle: 6 * time.Second, start: func(a *arena, i int) error {
		var peers []string
		for k := 1; k <= a.machines; k++ {
			peers = append(peers, fmt.Sprintf("{name: node-%d, address: '%s:9390'}", k, a.segment.Station(k).Four))
		}
		return a.ours(i, fmt.Sprintf(`    lease:
      kubernetes: {servers: ["%s"], kubeconfig: %q, name: %s}
      self: node-%d
      peers: [%s]
`, a.store.url(), a.store.files.AdminConf, a.lease(), i, strings.Join(peers, ", ")))
	}}
}

// election is client-go's with an announcement every 3 s: what holders do that
// are built on it. See test/peers/leaderelection.
func election(duration, renew, retry time.Duration) rival {
	name := fmt.Sprintf("client-go leader election %g/%g/%g", duration.Seconds(), renew.Seconds(), retry.Seconds())
	// The others ask every 2.2 retry periods at most.
	return rival{name: name, settle: 3*retry + 2*time.Second, start: func(a *arena, i int) error {
		program, err := peer("leaderelection")
		if err != nil {
			return err
		}
		return a.enlist(i, "leaderelection", program, "--kubeconfig", a.store.files.AdminConf, "--lease", a.lease(), "--identity", fmt.Sprintf("node-%d", i),
			"--interface", segment.Interface, "--address", prize.String(), "--announce", "3s",
			"--duration", duration.String(), "--renew", renew.String(), "--retry", retry.String())
	}}
}

// slowElection has the defaults, quickElection what most guides set.
func slowElection() rival  { return election(15*time.Second, 10*time.Second, 2*time.Second) }
func quickElection() rival { return election(5*time.Second, 3*time.Second, time.Second) }

// byLease runs a bout of elections by Lease.
func (y *yard) byLease(ctx context.Context, rivals []rival, n int, do act) ([][]round, error) {
	a, err := y.arena(3)
	if err != nil {
		return nil, err
	}
	defer a.close()
	if err := a.needStore(ctx); err != nil {
		return nil, err
	}
	return a.bout(ctx, rivals, n, do)
}

// leaseNote says what stands behind a row.
func leaseNote(v, beside []*float64, more ...string) string {
	return words(append([]string{
		fmt.Sprintf("median of %d; worst %s ms, peer %s ms; Lease in kube-apiserver %s", len(v), figure(last(v), ""), figure(last(beside), ""), storeVersion),
	}, append(more, load())...)...)
}

func (y *yard) leaseSilent(ctx context.Context) ([]Row, error) {
	return y.leaseSilentBeside(ctx, "vip-lease-silent", slowElection())
}

func (y *yard) leaseSilentQuick(ctx context.Context) ([]Row, error) {
	return y.leaseSilentBeside(ctx, "vip-lease-silent-5-3-1", quickElection())
}

func (y *yard) leaseSilentBeside(ctx context.Context, name string, beside rival) ([]Row, error) {
	rivals := []rival{ourLease(), beside}
	writes := make([][]float64, len(rivals))
	got, err := y.byLease(ctx, rivals, y.times(leaseRounds), func(ctx context.Context, a *arena, r rival, k, n int) (round, error) {
		rate, err := a.writing(ctx, 10*time.Second)
		if err != nil {
			return round{}, err
		}
		i := 0
		if r.name == beside.name {
			i = 1
		}
		writes[i] = append(writes[i], rate)
		// Anywhere between two renewals.
		if !pause(ctx, time.Duration(float64(k)/float64(n)*float64(2*time.Second))) {
			return round{}, ctx.Err()
		}
		begun := time.Now()
		if err := a.segment.Station(1).Silence(); err != nil {
			return round{}, err
		}
		return a.watch(ctx, r, begun, time.Minute, time.Second)
	})
	if err != nil {
		return nil, err
	}
	ours, theirs := tookOf(got[0]), tookOf(got[1])
	other := median(writes[1])
	return []Row{
		within(name, "ms", middle(ours), 3000, leaseNote(ours, theirs, "default timers")).against(beside.name, middle(theirs)),
		atMost(name+"-writes", "per s", median(writes[0]), 1, fmt.Sprintf("to the Lease, counted in etcd for 10 s; median of %d times", len(writes[0]))).against(beside.name, &other),
		staleRow(name+"-stale", rivals, got),
	}, nil
}

// writing is how often the Lease is written in a second.
func (a *arena) writing(ctx context.Context, watch time.Duration) (float64, error) {
	before, err := a.store.written(ctx, a.lease())
	if err != nil {
		return 0, err
	}
	from := time.Now()
	if !pause(ctx, watch) {
		return 0, ctx.Err()
	}
	after, err := a.store.written(ctx, a.lease())
	return float64(after-before) / time.Since(from).Seconds(), err
}

// apiCut takes the API from the holder alone.
func (y *yard) apiCut(ctx context.Context) ([]Row, error) {
	rivals := []rival{ourLease(), slowElection()}
	got, err := y.byLease(ctx, rivals, y.times(leaseRounds), func(ctx context.Context, a *arena, r rival, _, _ int) (round, error) {
		api := a.store.station.Four
		begun := time.Now()
		err := a.filter(1, fmt.Sprintf(`table inet bench {
 chain in { type filter hook input priority 0; ip saddr %[1]s drop; }
 chain out { type filter hook output priority 0; ip daddr %[1]s drop; }
}`, api))
		if err != nil {
			return round{}, err
		}
		defer func() { _ = a.filter(1, "") }()
		return a.watch(ctx, r, begun, time.Minute, 10*time.Second)
	})
	if err != nil {
		return nil, err
	}
	ours, theirs := tookOf(got[0]), tookOf(got[1])
	both := func(all []round) []*float64 {
		return pick(all, func(r round) *float64 { v := ms(r.seen.Both); return &v })
	}
	return []Row{
		within("vip-api-cut-both", "ms", last(both(got[0])), 0,
			fmt.Sprintf("worst of %d; two machines answering ARP at once, asked every 5 ms", len(got[0]))).against(slowElection().name, last(both(got[1]))),
		reportedMaybe("vip-api-cut", "ms", middle(ours), leaseNote(ours, theirs, "outage")).against(slowElection().name, middle(theirs)),
		staleRow("vip-api-cut-stale", rivals, got),
	}, nil
}

// apiDown freezes the API and its etcd for all.
func (y *yard) apiDown(ctx context.Context) ([]Row, error) {
	const down = 16 * time.Second
	rivals := []rival{ourLease(), slowElection()}
	got, err := y.byLease(ctx, rivals, y.times(leaseRounds), func(ctx context.Context, a *arena, r rival, _, _ int) (round, error) {
		begun := time.Now()
		if err := a.store.freeze(true); err != nil {
			return round{}, err
		}
		pause(ctx, down)
		one := round{seen: a.client.Since(begun)}
		if err := a.store.freeze(false); err != nil {
			return one, err
		}
		gap := ms(one.seen.Gap)
		one.took = &gap
		if err := a.store.await(ctx); err != nil {
			return one, err
		}
		// Who has dropped it, takes it again.
		err := a.answered(ctx, 30*time.Second, "somebody answers", func(int) bool { return a.client.Since(time.Now().Add(-20*time.Millisecond)).Lost == 0 })
		one.stale = a.client.Neighbor(prize) != r.believes(a, a.client.Last())
		return one, err
	})
	if err != nil {
		return nil, err
	}
	ours, theirs := tookOf(got[0]), tookOf(got[1])
	return []Row{
		within("vip-api-down", "ms", last(ours), 0,
			fmt.Sprintf("worst of %d; API and etcd frozen for %s, policy keep; Lease in kube-apiserver %s; %s", len(ours), down, storeVersion, load())).
			against(slowElection().name, last(theirs)),
		staleRow("vip-api-down-stale", rivals, got),
	}, nil
}

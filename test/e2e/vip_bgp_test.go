package e2e

import (
	"fmt"
	stdslices "slices"
	"syscall"
	"testing"
	"time"
)

// TestVIPBGP is S1's setting: three machines announce one address, the router
// spreads, and clients behind it ask.
func TestVIPBGP(t *testing.T) {
	nightly(t)
	r := newEdge(t, 3, 3, spread)
	r.route()
	begun := time.Now()
	for i := 1; i <= 3; i++ {
		r.share(i, "bgp", r.toRouter(""))
	}
	r.counted(3, 20*time.Second)
	t.Logf("from the start of three agents to three next hops: %s", time.Since(begun).Round(time.Millisecond))
	for i := 1; i <= 3; i++ {
		r.awaitSession(i, 10*time.Second)
	}
	r.await("all clients are answered", 5*time.Second, func() bool { return r.served()[0] == 0 })

	var hops, gaps, back []time.Duration
	for range 5 {
		dead := r.clients[0].Last()
		begun := time.Now()
		if err := r.segment.Station(dead).Silence(); err != nil {
			t.Fatal(err)
		}
		hops = append(hops, r.counted(2, 400*time.Millisecond+slack))
		r.await("the client is answered by another", 5*time.Second, func() bool { return r.clients[0].Last() != dead })
		gap, _, _ := r.met(begun)
		gaps = append(gaps, gap)
		begun = time.Now()
		if err := r.segment.Station(dead).Rejoin(); err != nil {
			t.Fatal(err)
		}
		r.counted(3, 3*time.Second+slack)
		back = append(back, time.Since(begun))
		r.awaitSession(dead, 10*time.Second)
		if gap, lost, _ := r.met(begun); lost > 0 {
			t.Errorf("back again: %d lost, gap %s", lost, gap)
		}
	}
	t.Logf("hard death: next hops 3 → 2 after %s (median of %v), clients without an answer for %s (median of %v)", median(hops), hops, median(gaps), gaps)
	t.Logf("back again: next hops 2 → 3 after %s (median of %v)", median(back), back)
	if median(gaps) > 400*time.Millisecond+slack/4 {
		t.Errorf("hard death: no answer for %s, at most 400 ms expected", median(gaps))
	}
	_, weight := r.memory(1)
	t.Logf("memory of an agent: %s", weight)
}

func median(all []time.Duration) time.Duration {
	s := stdslices.Sorted(stdslices.Values(all))
	return s[len(s)/2].Round(time.Millisecond)
}

// TestVIPBGPAgent is what becomes of an agent, and of the checks.
func TestVIPBGPAgent(t *testing.T) {
	nightly(t)
	r := newEdge(t, 3, 3, spread)
	r.route()
	for i := 1; i <= 3; i++ {
		r.share(i, "bgp", r.toRouter(""))
	}
	r.counted(3, 20*time.Second)
	for i := 1; i <= 3; i++ {
		r.awaitSession(i, 10*time.Second)
	}
	for _, c := range []struct {
		what string
		gap  time.Duration
		do   func(i int)
		undo func(i int)
	}{
		{"killed", 150 * time.Millisecond, func(i int) { r.kill(i, syscall.SIGKILL) }, func(i int) { r.share(i, "bgp", r.toRouter("")) }},
		{"stopped", 400 * time.Millisecond, func(i int) { r.kill(i, syscall.SIGSTOP) }, func(i int) { r.kill(i, syscall.SIGCONT) }},
		{"SIGTERM", 0, func(i int) { r.kill(i, syscall.SIGTERM) }, func(i int) {
			r.ended(i)
			r.share(i, "bgp", r.toRouter(""))
		}},
		{"unhealthy", 0, func(i int) { r.serve(i, false) }, func(i int) { r.serve(i, true) }},
	} {
		i := r.clients[0].Last()
		begun := time.Now()
		c.do(i)
		r.counted(2, 5*time.Second)
		took := time.Since(begun)
		r.await("the client is answered by another", 5*time.Second, func() bool { return r.clients[0].Last() != i })
		r.await("the address is gone from the machine", 2500*time.Millisecond+slack, func() bool { return !r.has(i, spread) })
		gone := time.Since(begun)
		gap, lost, asked := r.met(begun)
		t.Logf("%s: next hops 3 → 2 after %s, address gone after %s; %d of %d lost, gap %s", c.what, took.Round(time.Millisecond), gone.Round(time.Millisecond), lost, asked, gap)
		if c.gap == 0 && lost > 0 || gap > c.gap+slack {
			t.Errorf("%s: gap %s with %d lost, at most %s expected", c.what, gap, lost, c.gap)
		}
		begun = time.Now()
		c.undo(i)
		r.counted(3, 10*time.Second)
		took = time.Since(begun)
		r.awaitSession(i, 10*time.Second)
		gap, lost, _ = r.met(begun)
		t.Logf("after %s: next hops 2 → 3 after %s; %d lost, gap %s", c.what, took.Round(time.Millisecond), lost, gap)
		if lost > 0 {
			t.Errorf("after %s: %d lost, gap %s", c.what, lost, gap)
		}
	}
	if s, err := r.status(1); err != nil || s.State != "active" {
		t.Error(fmt.Errorf("status: %+v, %w", s, err))
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	paceRate    = 1000 // requests per second, all connections together
	paceClients = 16
)

// latency measures what a balancer adds to the slowest hundredth of requests
// that come at an even pace.
func (g *ground) latency(ctx context.Context) ([]Row, error) {
	r, err := g.line(ctx, "fast")
	if err != nil {
		return nil, err
	}
	defer r.close()
	to := []netip.AddrPort{r.lanes[0].to, r.lanes[1].to, netip.AddrPortFrom(addressOf(1), backendPort)}
	length, rounds := g.window(4*time.Second, 2*time.Second), g.times(9)
	p99, p50 := make([][]float64, len(to)), make([][]float64, len(to))
	for round := range rounds {
		for turn := range to {
			i := (round + turn) % len(to)
			all, err := paced(ctx, to[i], length)
			if err != nil {
				return nil, err
			}
			p99[i] = append(p99[i], value(quantile(all, 0.99)))
			p50[i] = append(p50[i], value(quantile(all, 0.5)))
		}
		fmt.Fprintf(os.Stderr, "bench:   p99 ours %.0f us, peer %.0f us, direct %.0f us, %s\n", p99[0][round], p99[1][round], p99[2][round], load())
	}
	ours, peer := added(p99[0], p99[2]), added(p99[1], p99[2])
	note := fmt.Sprintf("added p99 against direct, median of %d rounds at %d requests/s over %d kept connections; direct p99 %.0f us; added median %.0f us, peer %.0f us; %s",
		rounds, paceRate, paceClients, median(slices.Clone(p99[2])), added(p50[0], p50[2]), added(p50[1], p50[2]), load())
	return []Row{atMost("balance-latency", "us", ours, 100, note).against(peerName, &peer)}, nil
}

// added is the median of the differences round by round.
func added(via, direct []float64) float64 {
	var d []float64
	for i := range via {
		d = append(d, via[i]-direct[i])
	}
	return median(d)
}

// paced asks at an even pace and returns the sorted latencies in us.
func paced(ctx context.Context, to netip.AddrPort, length time.Duration) ([]float64, error) {
	all := make([][]float64, paceClients)
	c := newCrew(to, paceClients)
	s, err := c.measure(ctx, func(c *crew, worker int, n *atomic.Int64) error {
		return pace(c, worker, n, &all[worker])
	}, length, os.Getpid())
	if err != nil {
		return nil, err
	}
	if want := paceRate * length.Seconds() / 2; float64(s.done) < want {
		return nil, fmt.Errorf("only %d requests of %d to %s", s.done, int(2*want), to)
	}
	sorted := slices.Concat(all...)
	slices.Sort(sorted)
	return sorted, nil
}

// pace is one client: its requests are due at even intervals, whether or not
// the one before is answered. A request that is sent late because the one
// before was slow counts from when it was due; one sent late because the
// timer was late counts from when it was sent: that is not the balancer's.
func pace(c *crew, worker int, n *atomic.Int64, took *[]float64) error {
	r, err := c.dial(worker)
	if err != nil {
		return err
	}
	defer c.close(worker, r)
	request, got := message(wantReply), make([]byte, messageSize)
	if err := exchange(r, request, got); err != nil { // the connection's first is set-up
		return err
	}
	interval := time.Second * paceClients / paceRate
	base := now() + int64(interval)*int64(worker)/paceClients
	for i := int64(1); !c.stop.Load(); i++ {
		start := base + i*int64(interval)
		if now() < start {
			sleepUntil(start)
			start = now()
		}
		if err := exchange(r, request, got); err != nil {
			return err
		}
		*took = append(*took, math.Round(float64(now()-start)/100)/10)
		n.Add(1)
	}
	return nil
}

// now reads the monotonic clock, in nanoseconds.
func now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // this clock cannot fail
	return t.Nano()
}

// sleepUntil blocks the thread: the kernel's timer is finer than the
// scheduler's poller.
func sleepUntil(at int64) {
	t := unix.NsecToTimespec(at)
	for errors.Is(unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &t, nil), unix.EINTR) {
	}
}

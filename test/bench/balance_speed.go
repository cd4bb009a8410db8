package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"
)

// race is balancers that stand ready side by side before the same backends,
// and are driven in turn.
type race struct {
	g        *ground
	backends []*backend
	lanes    []lane
}

type lane struct {
	balancer balancer
	to       netip.AddrPort
}

func local(port int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
}

// line starts backends of a kind and all balancers, with plain checks.
func (g *ground) line(ctx context.Context, kind string) (*race, error) {
	r := &race{g: g}
	if err := r.line(ctx, kind); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *race) line(ctx context.Context, kind string) error {
	var err error
	if r.backends, err = r.g.backends(ctx, kind, backendCount); err != nil {
		return err
	}
	for _, m := range r.g.makers() {
		b, port := m(), r.g.port()
		if err := b.start(ctx, setup{port: port, backends: addresses(r.backends)}); err != nil {
			return fmt.Errorf("%s: %w", b.name(), err)
		}
		r.lanes = append(r.lanes, lane{b, local(port)})
	}
	if !pause(ctx, 3*time.Second) { // the first checks
		return ctx.Err()
	}
	return nil
}

func (r *race) close() {
	for _, l := range r.lanes {
		l.balancer.stop()
	}
	end(r.backends)
}

// rounds drives the lanes in turn and collects what each did. Every second
// round runs the other way round, so that a drift of the machine hits both.
func (r *race) rounds(ctx context.Context, n, workers int, length time.Duration, do job) ([][]span, error) {
	got := make([][]span, len(r.lanes))
	for round := range n {
		order := []int{0, 1}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, i := range order {
			l := r.lanes[i]
			s, err := newCrew(l.to, workers).measure(ctx, do, length, l.balancer.pid())
			if err != nil {
				return nil, fmt.Errorf("%s: %w", l.balancer.name(), err)
			}
			fmt.Fprintf(os.Stderr, "bench:   %s: %.4g/s, processor %.2f s of %.2f s, %s\n", l.balancer.name(), s.rate(), s.cpu, s.seconds, load())
			got[i] = append(got[i], s)
		}
	}
	return got, nil
}

func medianOf(all []span, pick func(span) float64) float64 {
	var v []float64
	for _, s := range all {
		v = append(v, pick(s))
	}
	return median(v)
}

func median(v []float64) float64 {
	slices.Sort(v)
	return value(quantile(v, 0.5))
}

// asFast makes a row whose figure must reach the peer's. scale turns what a
// span counts per second into the unit.
func asFast(name, unit string, got [][]span, scale float64, note string) Row {
	rate := func(s span) float64 { return s.rate() * scale }
	cpu := func(s span) float64 { return s.cpu / s.seconds }
	peer := medianOf(got[1], rate)
	var ratios []float64
	for i := range got[0] {
		ratios = append(ratios, got[0][i].rate()/got[1][i].rate())
	}
	note = fmt.Sprintf("median of %d rounds, %s; median ratio of a round %.3g; cores used %.2g, peer %.2g; %s",
		len(got[0]), note, median(ratios), medianOf(got[0], cpu), medianOf(got[1], cpu), load())
	return atLeast(name, unit, medianOf(got[0], rate), peer, note).against(peerName, &peer)
}

const speedClients = 16

func (g *ground) short(ctx context.Context) ([]Row, error) {
	return g.speed(ctx, "short", "connections/s", "16 clients, 200 bytes there and back", shortJob)
}

func (g *ground) requests(ctx context.Context) ([]Row, error) {
	return g.speed(ctx, "requests", "requests/s", "16 kept connections, 200 bytes there and back", requestJob)
}

func (g *ground) speed(ctx context.Context, name, unit, note string, do job) ([]Row, error) {
	r, err := g.line(ctx, "fast")
	if err != nil {
		return nil, err
	}
	defer r.close()
	got, err := r.rounds(ctx, g.times(7), speedClients, g.window(3*time.Second, time.Second), do)
	if err != nil {
		return nil, err
	}
	return []Row{asFast("balance-"+name, unit, got, 1, note)}, nil
}

// bulk streams from the backends. Processor time is that of the balancer.
func (g *ground) bulk(ctx context.Context) ([]Row, error) {
	r, err := g.line(ctx, "fast")
	if err != nil {
		return nil, err
	}
	defer r.close()
	var rows []Row
	all := make([][]span, len(r.lanes))
	for _, streams := range []int{1, 4} {
		got, err := r.rounds(ctx, g.times(7), streams, g.window(3*time.Second, time.Second), streamJob)
		if err != nil {
			return rows, err
		}
		rows = append(rows, asFast(fmt.Sprintf("balance-bulk-%d", streams), "Gbit/s", got, 8e-9, "from the backend to the client"))
		for i := range got {
			all[i] = append(all[i], got[i]...)
		}
	}
	perGB := func(s span) float64 { return s.cpu / (float64(s.done) / 1e9) }
	ours, peer := medianOf(all[0], perGB), medianOf(all[1], perGB)
	note := fmt.Sprintf("user and system time of the balancer, median of the %d rounds with 1 and 4 streams; the bar is 0.8 of the peer's", len(all[0]))
	return append(rows, atMost("balance-cpu-per-gb", "s", ours, 0.8*peer, note).against(peerName, &peer)), nil
}

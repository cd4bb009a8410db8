package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"
)

// frozen stops a backend for good. The timers of the seed and of the anchors
// are measured beside ours.
func (g *ground) frozen(ctx context.Context) ([]Row, error) {
	rows, err := g.faultRows(ctx, "frozen", freeze)
	if err != nil {
		return rows, err
	}
	ours := rows[0].Ours
	for _, profile := range []string{"seed", "anchors"} {
		// The anchors know no other check than a connect.
		watch, https := g.window(40*time.Second, 8*time.Second), profile == "seed"
		o, err := g.suffer(ctx, &holdfast{g: g, profile: profile}, freeze, 0, watch, flowRate/4, https)
		if err != nil {
			return rows, err
		}
		note := "one run, our data path with their timers"
		if o.moved == nil {
			note += fmt.Sprintf("; the peer had not moved after %s", watch)
		}
		rows = append(rows, within("balance-frozen-moved-"+profile, "ms", ours, ms(movedBar), note).against(profile+" timers", o.moved))
	}
	return rows, nil
}

func (g *ground) blackholed(ctx context.Context) ([]Row, error) {
	return g.faultRows(ctx, "blackholed", blackhole)
}

func (g *ground) unready(ctx context.Context) ([]Row, error) {
	return g.faultRows(ctx, "unready", makeUnready)
}

// faultRows lets each balancer suffer the fault in turn.
func (g *ground) faultRows(ctx context.Context, name string, f fault) ([]Row, error) {
	makers, runs := g.makers(), g.times(5)
	got := make([][]outcome, len(makers))
	for run := range runs {
		// Over the peer's period of 2 s, which holds two of ours.
		calm := 2 * time.Second * time.Duration(run) / time.Duration(runs)
		for i, m := range makers {
			o, err := g.suffer(ctx, m(), f, calm, 10*time.Second, flowRate, true)
			if err != nil {
				return nil, err
			}
			got[i] = append(got[i], o)
		}
	}
	moved, reset := func(o outcome) *float64 { return o.moved }, func(o outcome) *float64 { return o.reset }
	failed := func(o outcome) int { return o.failed }
	early := func(o outcome) int { return o.early }
	strangers := func(o outcome) int { return o.strangers }
	slowest := func(o outcome) *float64 { return &o.slowest }
	note := fmt.Sprintf("worst of %d runs, %s", runs, load())
	peerFailed := total(got[1], failed)
	return []Row{
		within("balance-"+name+"-moved", "ms", worst(got[0], moved), ms(movedBar),
			fmt.Sprintf("%s; slowest new connection %.0f ms, peer %.0f ms", note, *worst(got[0], slowest), *worst(got[1], slowest))).
			against(peerName, worst(got[1], moved)),
		within("balance-"+name+"-reset", "ms", worst(got[0], reset), ms(resetBar),
			fmt.Sprintf("%s; connections to healthy backends lost: %.0f, peer %.0f", note, total(got[0], strangers), total(got[1], strangers))).
			against(peerName, worst(got[1], reset)),
		atMost("balance-"+name+"-failed", "connections", total(got[0], failed), 0,
			fmt.Sprintf("sum of %d runs, begun later than %s after the fault; earlier ones: %.0f, peer %.0f", runs, movedBar, total(got[0], early), total(got[1], early))).
			against(peerName, &peerFailed),
	}, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// killed counts failed connections around the death of one backend after the
// other, first of backends at work, then of such as hung before they died:
// those have accepted connections and not said a word on them.
func (g *ground) killed(ctx context.Context) ([]Row, error) {
	var rows []Row
	for _, k := range []struct {
		name, how string
		hang      time.Duration
	}{{"balance-killed-failed", "", 0}, {"balance-killed-hung-failed", " after hanging for 100 ms", 100 * time.Millisecond}} {
		makers, deaths := g.makers(), g.times(5)
		got := make([]tollOfDeaths, len(makers))
		for i, m := range makers {
			b := m()
			t, err := g.deaths(ctx, b, deaths, k.hang)
			if err != nil {
				return rows, err
			}
			fmt.Fprintf(os.Stderr, "bench:   %s: %d failed of %d, %d cut in mid-answer, slowest %s\n", b.name(), t.failed, t.all, t.excused, t.slowest)
			got[i] = t
		}
		ours, peer := got[0], float64(got[1].failed)
		rows = append(rows, atMost(k.name, "connections", float64(ours.failed), 0, fmt.Sprintf(
			"%d kills%s at %d connections/s; cut after the backend had spoken: %d, peer %d; slowest connection %d ms, peer %d ms; %s",
			deaths, k.how, flowRate, ours.excused, got[1].excused, ours.slowest.Milliseconds(), got[1].slowest.Milliseconds(), load())).
			against(peerName, &peer))
	}
	return rows, nil
}

// tollOfDeaths is what became of new connections.
type tollOfDeaths struct {
	all, failed int
	// excused were cut after the backend had said something: nobody can
	// replay those.
	excused int
	slowest time.Duration
}

// moment is when a backend died: between the signal and the end of it.
type moment struct{ from, to time.Time }

func (g *ground) deaths(ctx context.Context, b balancer, n int, hang time.Duration) (tollOfDeaths, error) {
	s, err := g.setStage(ctx, b, backendCount, flowRate, true)
	if err != nil {
		return tollOfDeaths{}, err
	}
	defer s.strike()
	var died []moment
	for i := range n {
		victim := s.backends[i%backendCount]
		from := time.Now()
		if hang > 0 {
			if err := victim.signal(syscall.SIGSTOP); err != nil {
				return tollOfDeaths{}, err
			}
			pause(ctx, hang)
		}
		victim.kill()
		died = append(died, moment{from, time.Now()})
		if !pause(ctx, 3*time.Second) {
			return tollOfDeaths{}, ctx.Err()
		}
		if err := victim.start(ctx); err != nil {
			return tollOfDeaths{}, err
		}
		if !pause(ctx, 5*time.Second) { // rise, then trust
			return tollOfDeaths{}, ctx.Err()
		}
	}
	attempts, _ := s.finish()
	return count(attempts, died), nil
}

// relaying is how long a last byte of a dead backend may take to the client.
const relaying = 20 * time.Millisecond

func count(attempts []attempt, died []moment) tollOfDeaths {
	t := tollOfDeaths{all: len(attempts)}
	for _, a := range attempts {
		t.slowest = max(t.slowest, a.took())
		if a.err == nil {
			continue
		}
		spoken := slices.ContainsFunc(died, func(m moment) bool {
			return !a.first.IsZero() && a.first.Before(m.to.Add(relaying)) && a.end.After(m.from)
		})
		if spoken {
			t.excused++
		} else {
			t.failed++
		}
	}
	return t
}

// calm stresses backends that are well and counts verdicts and victims.
func (g *ground) calm(ctx context.Context) ([]Row, error) {
	makers := g.makers()
	changes, resets, failed := make([]float64, len(makers)), make([]float64, len(makers)), make([]int, len(makers))
	for i, m := range makers {
		b := m()
		if err := g.stress(ctx, b, &changes[i], &resets[i], &failed[i]); err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "bench:   %s: %.0f transitions, %.0f resets, %d failed, %s\n", b.name(), changes[i], resets[i], failed[i], load())
	}
	note := fmt.Sprintf("%d stops of 700 ms, then /readyz of one backend after 800 ms for %s; %d connections/s, of which failed: %d, peer %d; %s",
		g.times(5), g.window(10*time.Second, 4*time.Second), flowRate, failed[0], failed[1], load())
	return []Row{
		atMost("balance-calm-transitions", "transitions", changes[0], 0, note).against(peerName, &changes[1]),
		atMost("balance-calm-resets", "connections", resets[0], 0, fmt.Sprintf("of %d kept connections; as above", keptCount)).against(peerName, &resets[1]),
	}, nil
}

func (g *ground) stress(ctx context.Context, b balancer, changes, resets *float64, failed *int) error {
	s, err := g.setStage(ctx, b, backendCount, flowRate, true)
	if err != nil {
		return err
	}
	defer s.strike()
	before, err := b.transitions()
	if err != nil {
		return err
	}
	for i := range g.times(5) {
		if err := stop(ctx, s.backends[i%backendCount], 700*time.Millisecond); err != nil {
			return err
		}
		if !pause(ctx, 3*time.Second) {
			return ctx.Err()
		}
	}
	if err := s.backends[0].say("800ms"); err != nil {
		return err
	}
	if !pause(ctx, g.window(10*time.Second, 4*time.Second)) {
		return ctx.Err()
	}
	after, err := b.transitions()
	if err != nil {
		return err
	}
	attempts, _ := s.finish()
	for _, a := range attempts {
		if a.err != nil {
			*failed++
		}
	}
	_, lost, _ := s.kept.toll(0)
	*changes, *resets = float64(after-before), float64(lost)
	return nil
}

// stop stops a backend for a while.
func stop(ctx context.Context, b *backend, d time.Duration) error {
	if err := b.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	pause(ctx, d)
	return b.signal(syscall.SIGCONT)
}

// down kills all backends, then starts one.
func (g *ground) down(ctx context.Context) ([]Row, error) {
	makers, runs := g.makers(), g.times(5)
	refused, served := make([][]float64, len(makers)), make([][]float64, len(makers))
	for range runs {
		for i, m := range makers {
			b := m()
			r, s, err := g.outage(ctx, b)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(os.Stderr, "bench:   %s: refused within %.3g ms, served after %.0f ms\n", b.name(), r, s)
			refused[i], served[i] = append(refused[i], r), append(served[i], s)
		}
	}
	note := fmt.Sprintf("worst of %d runs, %s", runs, load())
	most := func(v []float64) *float64 { m := slices.Max(v); return &m }
	return []Row{
		within("balance-down-refused", "ms", most(refused[0]), 100, note+"; until the client knows, worst of 50 each").against(peerName, most(refused[1])),
		within("balance-down-served", "ms", most(served[0]), 1000, note+"; from /readyz 200 to the first answer through the balancer").against(peerName, most(served[1])),
	}, nil
}

// outage returns the longest refusal while all are down, and how long after
// the return of a backend a client is served; milliseconds.
func (g *ground) outage(ctx context.Context, b balancer) (refused, served float64, err error) {
	s, err := g.setStage(ctx, b, backendCount, flowRate/4, true)
	if err != nil {
		return 0, 0, err
	}
	defer s.strike()
	end(s.backends)
	if !pause(ctx, 4*time.Second) { // both know by now
		return 0, 0, ctx.Err()
	}
	for range 50 {
		d, err := s.client.refusal()
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w", b.name(), err)
		}
		refused = max(refused, ms(d))
	}
	ready, err := s.revive(ctx)
	if err != nil {
		return 0, 0, err
	}
	err = until(ctx, 30*time.Second, b.name()+" serves again", func() (bool, error) {
		for _, a := range s.flow.sofar() {
			if a.err == nil && a.end.After(ready) {
				served = ms(a.end.Sub(ready))
				return true, nil
			}
		}
		return false, nil
	})
	return refused, served, err
}

// refusal is how long a client waits for the news that nobody serves.
func (c *client) refusal() (time.Duration, error) {
	start := time.Now()
	conn, err := net.DialTimeout("tcp", c.address, patience)
	if err != nil {
		return time.Since(start), nil
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(start.Add(patience))
	n, _ := conn.Read(make([]byte, 1))
	if n > 0 {
		return 0, fmt.Errorf("a backend answered that should be dead")
	}
	return time.Since(start), nil
}

// revive starts backend 1 and returns when its /readyz first says 200.
func (s *stage) revive(ctx context.Context) (time.Time, error) {
	if err := s.backends[0].start(ctx); err != nil {
		return time.Time{}, err
	}
	direct := &http.Client{Timeout: time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: s.client.tls.RootCAs, ServerName: "kubernetes", MinVersion: tls.VersionTLS12},
	}}
	defer direct.CloseIdleConnections()
	var at time.Time
	err := until(ctx, 10*time.Second, "backend is ready", func() (bool, error) {
		r, err := direct.Get("https://" + s.backends[0].address + "/readyz")
		if err != nil {
			return false, nil
		}
		_, _ = io.Copy(io.Discard, r.Body)
		at = time.Now()
		return r.StatusCode == http.StatusOK, r.Body.Close()
	})
	return at, err
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	backendCount = 3
	keptCount    = 30
	flowRate     = 200 // new connections per second
	controlRate  = 20
)

// stage is a balancer with backends behind it and clients in front of it.
type stage struct {
	g        *ground
	balancer balancer
	setup    setup
	backends []*backend
	client   *client
	kept     *keeper
	flow     *stream
	control  *stream // goes past the balancer; nil where nobody asks
}

// setStage starts everything and waits until all backends are in use. known
// is how many backends the balancer is told of.
func (g *ground) setStage(ctx context.Context, b balancer, known, rate int, tls bool) (*stage, error) {
	s := &stage{g: g, balancer: b}
	if err := s.set(ctx, known, rate, tls); err != nil {
		err = fmt.Errorf("%s: %w; it says: %s", b.name(), err, b.tail())
		s.strike()
		return nil, err
	}
	return s, nil
}

func (s *stage) set(ctx context.Context, known, rate int, tls bool) error {
	var err error
	if s.backends, err = s.g.backends(ctx, "tls", backendCount); err != nil {
		return err
	}
	s.setup = setup{port: s.g.port(), backends: addresses(s.backends[:known]), tls: tls}
	if err := s.balancer.start(ctx, s.setup); err != nil {
		return err
	}
	if s.client, err = s.g.client(s.setup.port); err != nil {
		return err
	}
	if err := s.client.seen(ctx, known); err != nil {
		return err
	}
	if !pause(ctx, 2*time.Second) { // beyond what was started with
		return ctx.Err()
	}
	if s.kept, err = s.client.keep(keptCount); err != nil {
		return err
	}
	s.flow = s.client.flow(rate)
	if !pause(ctx, time.Second) {
		return ctx.Err()
	}
	return nil
}

// strike ends everything. Processes die first, so that no client waits out
// its patience.
func (s *stage) strike() {
	s.balancer.stop()
	end(s.backends)
	if s.kept != nil {
		s.kept.close()
	}
	for _, f := range []*stream{s.flow, s.control} {
		if f != nil {
			f.finish()
		}
	}
}

// busiest is the backend that has answered most of the latest connections: a
// fault of another would be easier to survive. The control is sent to the next.
func (s *stage) busiest() *backend {
	attempts := s.flow.sofar()
	attempts = attempts[max(0, len(attempts)-100):]
	answers := make([]int, backendCount)
	for _, a := range attempts {
		if a.err == nil {
			answers[a.from-1]++
		}
	}
	most := slices.Index(answers, slices.Max(answers))
	control := s.backends[(most+1)%backendCount].address
	s.control = (&client{address: control, tls: s.client.tls}).flow(controlRate)
	return s.backends[most]
}

// finish stops the streams. hiccups are the times when even connections past
// the balancer were slow: the machine is shared.
func (s *stage) finish() (attempts []attempt, hiccups []moment) {
	attempts = s.flow.finish()
	if s.control != nil {
		for _, a := range s.control.finish() {
			if a.took() > hiccup {
				hiccups = append(hiccups, moment{a.start, a.end})
			}
		}
	}
	s.flow, s.control = nil, nil
	return attempts, hiccups
}

// fault does something to one backend and undoes nothing: the stage is struck.
type fault func(ctx context.Context, victim *backend) error

func freeze(_ context.Context, victim *backend) error { return victim.signal(syscall.SIGSTOP) }

func makeUnready(_ context.Context, victim *backend) error { return victim.say("fail") }

// blackhole drops what goes to the victim and what comes from it.
func blackhole(ctx context.Context, victim *backend) error {
	address := strings.TrimSuffix(victim.address, ":"+strconv.Itoa(backendPort))
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`
table ip bench {
	chain in {
		type filter hook input priority 0;
		ip daddr %[1]s tcp dport %[2]d drop
		ip saddr %[1]s tcp sport %[2]d drop
	}
}
`, address, backendPort))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}

// clearFilter takes the blackhole back, if there is one: adding a table that
// exists is no error, deleting one that does not would be.
func clearFilter() { _ = exec.Command("nft", "add table ip bench; delete table ip bench").Run() }

// outcome is what clients saw of a fault. Times are milliseconds from it; nil
// means that it did not happen while anybody watched.
type outcome struct {
	// moved is when the last new connection began that failed, was slow
	// without the machine being slow, or was answered by the victim.
	moved *float64
	// reset is when the last kept connection to the victim was lost.
	reset *float64
	// failed counts new connections that failed though they began later than
	// the bar for moving; early counts those before.
	failed, early int
	// strangers counts lost connections to healthy backends.
	strangers int
	// slowest is how long the slowest new connection took, in milliseconds.
	slowest float64
}

const (
	movedBar = 1500 * time.Millisecond
	resetBar = 2500 * time.Millisecond
	// A connection that is rescued from a silent backend is served half a
	// second late; the client had better not notice either.
	slow   = 400 * time.Millisecond
	hiccup = 100 * time.Millisecond
)

// suffer sets a stage, injects the fault after another while of calm and
// watches. How soon a fault is noticed depends on where in the period of the
// checks it falls; the calm moves it.
func (g *ground) suffer(ctx context.Context, b balancer, f fault, calm, watch time.Duration, rate int, tls bool) (outcome, error) {
	defer clearFilter()
	s, err := g.setStage(ctx, b, backendCount, rate, tls)
	if err != nil {
		return outcome{}, err
	}
	defer s.strike()
	if !pause(ctx, calm) {
		return outcome{}, ctx.Err()
	}
	victim := s.busiest()
	if err := f(ctx, victim); err != nil {
		return outcome{}, err
	}
	at := time.Now() // in force: what began before may have been cut in mid-answer
	if !pause(ctx, watch) {
		return outcome{}, ctx.Err()
	}
	end := time.Now()
	attempts, hiccups := s.finish()
	o := judge(attempts, hiccups, victim.number, at, end)
	all, lost, last := s.kept.toll(victim.number)
	_, total, _ := s.kept.toll(0)
	o.strangers = total - lost
	if all == 0 {
		return o, fmt.Errorf("%s: no kept connection led to the victim", b.name())
	}
	if lost == all {
		o.reset = since(at, last)
	}
	fmt.Fprintf(os.Stderr, "bench:   %s: moved after %s ms, reset after %s ms (%d of %d), failed %d early and %d late, slowest %.0f ms, %d strangers lost, %d hiccups, share of the victim before %.2f, %s\n",
		b.name(), figure(o.moved, ""), figure(o.reset, ""), lost, all, o.early, o.failed, o.slowest, o.strangers, len(hiccups), share(attempts, victim.number, at), load())
	return o, nil
}

// share is the part of the connections of the last second before the fault
// that the victim has answered.
func share(attempts []attempt, victim int, at time.Time) float64 {
	all, its := 0, 0
	for _, a := range attempts {
		if a.start.Before(at.Add(-time.Second)) || a.end.After(at) {
			continue
		}
		all++
		if a.from == victim {
			its++
		}
	}
	return float64(its) / float64(max(all, 1))
}

// judge says what new connections suffered between the fault and the end of
// the watch. Those begun before the fault move nothing, but they may fail.
func judge(attempts []attempt, hiccups []moment, victim int, at, end time.Time) outcome {
	var o outcome
	last := at
	late := func(a attempt) bool {
		return a.took() > slow && !slices.ContainsFunc(hiccups, func(m moment) bool { return a.start.Before(m.to) && a.end.After(m.from) })
	}
	for _, a := range attempts {
		// What began before and had heard nothing yet counts, too.
		spoken := !a.first.IsZero() && a.first.Before(at.Add(relaying))
		if a.end.Before(at) || a.start.Before(at) && spoken {
			continue
		}
		o.slowest = max(o.slowest, ms(a.took()))
		if a.err != nil || a.from == victim || late(a) {
			if a.start.After(last) {
				last = a.start
			}
		}
		switch {
		case a.err == nil:
		case a.start.Sub(at) > movedBar:
			o.failed++
		default:
			o.early++
		}
	}
	// Trouble in the last fifth of the watch is trouble without end.
	if end.Sub(last) > end.Sub(at)/5 {
		o.moved = since(at, last)
	}
	return o
}

func since(from, to time.Time) *float64 {
	ms := float64(to.Sub(from).Microseconds()) / 1000
	return &ms
}

// worst is the largest, nil when there is a nil.
func worst(outcomes []outcome, pick func(outcome) *float64) *float64 {
	var all []float64
	for _, o := range outcomes {
		v := pick(o)
		if v == nil {
			return nil
		}
		all = append(all, *v)
	}
	slices.Sort(all)
	return quantile(all, 1)
}

func total(outcomes []outcome, pick func(outcome) int) float64 {
	n := 0
	for _, o := range outcomes {
		n += pick(o)
	}
	return float64(n)
}

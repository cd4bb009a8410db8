package remote

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// armTime is how much of the grace may pass between the first dead man and the
// first fault.
const armTime = grace / 2

// Controller carries a plan to hosts. Use it once.
type Controller struct {
	Inventory *Inventory
	Plan      *Plan
	// Out gets a line per phase.
	Out io.Writer
	// Note, when set, is told when a step begins, just before, and when it was taken
	// back.
	Note func(s Step, undone bool)

	sessions map[string]*session
	staged   []Host
	armed    time.Time
	// proofs are the probes that got through before anything was broken.
	proofs []*proof
	// doubts are what keeps the run from telling anything.
	doubts []string
}

// Run prepares all hosts, injects the steps at their time, measures the cuts and
// takes everything back, also when ctx ends or a host fails. doubts says why a run
// proves nothing, empty where every fault was measured to be in force and gone after.
// An error may leave a host to its dead man, and says so.
func (c *Controller) Run(ctx context.Context) (doubts []string, err error) {
	hosts := c.Plan.hosts(c.Inventory)
	c.sessions = map[string]*session{}
	defer c.close()
	if err := c.connect(ctx, hosts); err != nil {
		return nil, err
	}
	// A host that falls silent ends the drill for all: what is in force then is no
	// longer what was planned.
	ctx, gone := context.WithCancelCause(ctx)
	defer gone(nil)
	for _, s := range c.sessions {
		go s.watch(ctx, gone)
	}
	if err := c.look(ctx, hosts); err != nil {
		return nil, because(ctx, err)
	}
	if c.steady(ctx); ctx.Err() != nil {
		return nil, because(ctx, ctx.Err())
	}
	err = c.drill(ctx, hosts)
	// What was injected is undone whatever happened, with a context of its own.
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), scriptTime)
	defer cancel()
	if err = both(because(ctx, err), c.undo(undo)); err != nil {
		return nil, err
	}
	c.whole(undo)
	return c.doubts, nil
}

// drill prepares the hosts and keeps the faults in force.
func (c *Controller) drill(ctx context.Context, hosts []Host) error {
	c.armed = time.Now()
	if err := c.stage(ctx, hosts); err != nil {
		return err
	}
	c.say("prepared %d hosts", len(hosts))
	if late := time.Since(c.armed); late > armTime {
		return fmt.Errorf("prepare hosts: it took %v, which leaves their dead men too little; drill fewer hosts, or nearer ones", late.Round(time.Second))
	}
	return c.hold(ctx)
}

// because is the reason why ctx ended, where it did, instead of what broke on that.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// each runs f for all hosts at once and joins the errors in the hosts' order.
func each(hosts []Host, f func(Host) error) error {
	errs := make([]error, len(hosts))
	var wg sync.WaitGroup
	for i, h := range hosts {
		wg.Go(func() { errs[i] = f(h) })
	}
	wg.Wait()
	return joined(errs)
}

// both is one line for what happened and for an undo that failed after it.
func both(err, undo error) error {
	switch {
	case err == nil:
		return undo
	case undo == nil:
		return err
	}
	return fmt.Errorf("%w; then %w", err, undo)
}

// joined is one line for the first error that counts the others.
func joined(errs []error) error {
	var first error
	more := 0
	for _, err := range errs {
		switch {
		case err == nil:
		case first == nil:
			first = err
		default:
			more++
		}
	}
	if more > 0 {
		return fmt.Errorf("%w (and %d more hosts)", first, more)
	}
	return first
}

func (c *Controller) connect(ctx context.Context, hosts []Host) error {
	var mu sync.Mutex
	return each(hosts, func(h Host) error {
		s, err := dial(ctx, h, c.Inventory.KnownHosts)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		c.sessions[h.Name] = s
		return nil
	})
}

func (c *Controller) close() {
	for _, p := range c.proofs {
		p.close()
	}
	for _, s := range c.sessions {
		_ = s.client.Close()
	}
}

// look refuses the drill for what any host holds against it.
func (c *Controller) look(ctx context.Context, hosts []Host) error {
	return each(hosts, func(h Host) error {
		out, err := c.sessions[h.Name].run(ctx, looking(h, c.Plan.of(h.Name)), "looked")
		if err != nil {
			return fmt.Errorf("look at the host: %w", err)
		}
		for line := range strings.Lines(out) {
			if p, ok := strings.CutPrefix(strings.TrimSpace(line), "problem: "); ok {
				return fmt.Errorf("host %s: refused: %s", h.Name, p)
			}
		}
		return nil
	})
}

func (c *Controller) stage(ctx context.Context, hosts []Host) error {
	var mu sync.Mutex
	return each(hosts, func(h Host) error {
		mu.Lock()
		c.staged = append(c.staged, h)
		mu.Unlock()
		if out, err := c.sessions[h.Name].run(ctx, staging(h, c.Plan), "armed"); err != nil {
			if strings.HasPrefix(out, "refused:") || strings.Contains(out, "\nrefused:") {
				c.unstage(&mu, h)
			}
			return fmt.Errorf("prepare the host: %w", err)
		}
		return nil
	})
}

// unstage leaves the journal of another drill alone.
func (c *Controller) unstage(mu *sync.Mutex, h Host) {
	mu.Lock()
	defer mu.Unlock()
	for i, s := range c.staged {
		if s.Name == h.Name {
			c.staged = append(c.staged[:i], c.staged[i+1:]...)
			return
		}
	}
}

// hold injects and heals steps at their times until the last one is over.
func (c *Controller) hold(ctx context.Context) error {
	start := time.Now()
	for _, e := range c.Plan.events() {
		if err := until(ctx, start.Add(e.at)); err != nil {
			return err
		}
		s := c.Plan.Steps[e.step]
		if e.heal {
			c.count(ctx, e.step)
			if err := c.apply(ctx, s, healing, "healed"); err != nil {
				return fmt.Errorf("heal %s: %w", s.Name, err)
			}
			c.note(s, true)
			c.say("healed %s", s.Name)
			continue
		}
		c.note(s, false)
		if err := c.apply(ctx, s, injecting, "injected"); err != nil {
			return fmt.Errorf("inject %s: %w", s.Name, err)
		}
		c.say("injected %s", s.Name)
		c.verify(ctx, e.step)
	}
	if err := until(ctx, start.Add(c.Plan.Hold)); err != nil {
		return err
	}
	for i, s := range c.Plan.Steps {
		if s.Until >= c.Plan.Hold {
			c.count(ctx, i)
		}
	}
	return nil
}

func (c *Controller) apply(ctx context.Context, s Step, script func(Host, []Operation) string, want string) error {
	var hosts []Host
	for _, h := range c.Inventory.Hosts {
		if len(s.on(h.Name)) > 0 {
			hosts = append(hosts, h)
		}
	}
	return each(hosts, func(h Host) error {
		_, err := c.sessions[h.Name].run(ctx, script(h, s.on(h.Name)), want)
		return err
	})
}

func until(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// undo takes everything back on the hosts that were prepared, over a new
// connection where the old one broke.
func (c *Controller) undo(ctx context.Context) error {
	err := each(c.staged, func(h Host) error {
		out, err := c.sessions[h.Name].run(ctx, undone(h), "undone")
		if err != nil && !strings.HasSuffix(out, "nothing") {
			out, err = undoAnew(ctx, h, c.Inventory.KnownHosts)
		}
		if strings.HasSuffix(out, "nothing") {
			return fmt.Errorf("host %s: nothing was left to undo, so its dead man came first", h.Name)
		}
		if err != nil {
			return fmt.Errorf("%w; it undoes by itself within %v, or type: holdfast drill undo", err, c.Plan.DeadMan)
		}
		return nil
	})
	for _, s := range c.Plan.Steps {
		c.note(s, true)
	}
	if err == nil && len(c.staged) > 0 {
		c.say("undone on %d hosts", len(c.staged))
	}
	return err
}

func undoAnew(ctx context.Context, h Host, known string) (string, error) {
	s, err := dial(ctx, h, known)
	if err != nil {
		return "", err
	}
	defer func() { _ = s.client.Close() }()
	return s.run(ctx, undone(h), "undone")
}

// Undo takes back, on every host of the inventory, what a drill left there. It
// prints a line for each and goes on past those that fail.
func Undo(ctx context.Context, inv *Inventory, out io.Writer) error {
	lines := make([]string, len(inv.Hosts))
	index := map[string]int{}
	for i, h := range inv.Hosts {
		index[h.Name] = i
	}
	err := each(inv.Hosts, func(h Host) error {
		text, err := undoAnew(ctx, h, inv.KnownHosts)
		switch {
		case strings.HasSuffix(text, "nothing"):
			text, err = "nothing to undo", nil
		case err != nil:
			text = err.Error()
		}
		lines[index[h.Name]] = text
		return err
	})
	for i, h := range inv.Hosts {
		if _, werr := fmt.Fprintf(out, "%s: %s\n", h.Name, strings.TrimPrefix(lines[i], "host "+h.Name+": ")); werr != nil {
			return werr
		}
	}
	return err
}

func (c *Controller) note(s Step, undone bool) {
	if c.Note != nil {
		c.Note(s, undone)
	}
}

func (c *Controller) doubt(format string, args ...any) {
	c.doubts = append(c.doubts, fmt.Sprintf(format, args...))
}

func (c *Controller) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.Out, format+"\n", args...)
}

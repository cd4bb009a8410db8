package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ErrNotInForce is returned when the measured reachability differs from the
// declared one after a change.
var ErrNotInForce = errors.New("fault is not in force")

const (
	// verifyRounds is how often a matrix is measured before a path that should
	// be open counts as blocked; each round is twice as patient as the one
	// before, up to maxPatience, because a busy machine answers late.
	verifyRounds = 5
	maxPatience  = 2 * time.Second
	// leakRounds is how often a path that should be blocked may be open:
	// packets that were under way at the change explain it once.
	leakRounds = 2
)

// verify measures until the matrix is the declared one.
func (l *Lab) verify(ctx context.Context) error {
	_, wrong, err := l.settle(ctx)
	if err != nil || len(wrong) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s%s", ErrNotInForce, wrong[0], more(len(wrong)-1))
}

// settle measures until the matrix is the declared one or cannot be expected
// to become it, and returns the last one with its differences.
func (l *Lab) settle(ctx context.Context) (Matrix, []Mismatch, error) {
	patience := l.patience()
	for round := 1; ; round++ {
		m, err := l.measure(ctx, patience)
		if err != nil {
			return Matrix{}, nil, err
		}
		wrong := m.Differs(l.Expected())
		leak := slices.ContainsFunc(wrong, func(m Mismatch) bool { return m.Have })
		if len(wrong) == 0 || round == verifyRounds || leak && round >= leakRounds {
			return m, wrong, nil
		}
		patience = max(patience, min(2*patience, maxPatience))
	}
}

func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

// Cut puts cuts in force, all in one step per router, and verifies them. On
// ErrNotInForce the rules stay loaded; Heal removes them.
func (l *Lab) Cut(ctx context.Context, cuts ...Cut) error {
	l.change.Lock()
	defer l.change.Unlock()
	now := l.Cuts()
	generation := l.generation + 1
	for _, c := range cuts {
		c = c.withDefaults()
		if c.Name == "" {
			c.Name = c.String()
		}
		if err := c.check(l.plan); err != nil {
			return err
		}
		if slices.ContainsFunc(now, func(a Applied) bool { return a.Name == c.Name }) {
			return fmt.Errorf("cut %s is already in force: heal it first, or name the new one differently", c.Name)
		}
		now = append(now, Applied{Cut: c, generation: generation})
	}
	if err := l.applyRules(now, generation); err != nil {
		return err
	}
	for _, c := range cuts {
		l.log.Info("cut", "lab", l.spec.Name, "cut", c.String())
	}
	return l.verify(ctx)
}

// Heal ends the named cuts, or all of them, and verifies that the rest of the
// network is as declared.
func (l *Lab) Heal(ctx context.Context, names ...string) error {
	l.change.Lock()
	defer l.change.Unlock()
	now := l.Cuts()
	if len(names) == 0 {
		now = nil
	}
	for _, name := range names {
		i := slices.IndexFunc(now, func(a Applied) bool { return a.Name == name })
		if i < 0 {
			return fmt.Errorf("cut %q is not in force: %s", name, inForce(now))
		}
		now = slices.Delete(now, i, i+1)
	}
	before := l.Expected()
	if err := l.applyRules(now, l.generation); err != nil {
		return err
	}
	l.log.Info("heal", "lab", l.spec.Name, "left", len(now))
	l.renew(before, l.Expected())
	return l.verify(ctx)
}

func inForce(cuts []Applied) string {
	if len(cuts) == 0 {
		return "there is none"
	}
	var names []string
	for _, c := range cuts {
		names = append(names, fmt.Sprintf("%q", c.Name))
	}
	return "use " + strings.Join(names, ", ")
}

// renew drops kept connections that were silenced and may speak again.
func (l *Lab) renew(before, after Matrix) {
	for i, c := range before.Cells {
		if !c.Open[KindKept] && after.Cells[i].Open[KindKept] {
			x, _ := l.Node(c.From)
			y, _ := l.Node(c.To)
			l.prober.forget(x, y)
		}
	}
}

// Cuts lists the cuts in force, oldest first.
func (l *Lab) Cuts() []Applied {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.cuts)
}

// applyRules loads the rules of every router whose rules change. When a router
// refuses, those already changed go back.
func (l *Lab) applyRules(cuts []Applied, generation uint32) error {
	var undo []func()
	for _, name := range sorted(l.routers) {
		r := l.routers[name]
		rules := ruleset(l.plan, name, generation, cuts, l.losses(name))
		if rules == r.rules {
			continue
		}
		l.journal.write("router %s: nft -f - <<'EOF'\n%sEOF", name, rules)
		old := r.rules
		if err := r.load(rules); err != nil {
			for _, f := range undo {
				f()
			}
			return err
		}
		undo = append(undo, func() { _ = r.load(old) })
	}
	before := l.Cuts()
	if err := l.turn(before, cuts); err != nil {
		_ = l.turn(cuts, before)
		for _, f := range undo {
			f()
		}
		return err
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range cuts {
		if cuts[i].Since.IsZero() {
			cuts[i].Since = now
		}
	}
	l.cuts, l.generation = cuts, generation
	return nil
}

// losses are those that nftables has to make at one router: veth links cannot.
func (l *Lab) losses(site string) map[string]float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := map[string]float64{}
	for i, lp := range l.links {
		for _, e := range lp.ends {
			if e.site == site && i < len(l.wires) && l.wires[i].method() == methodVeth {
				m[e.ifname] = lp.Loss
			}
		}
	}
	return m
}

// Delay gives the link between the two sites of to the properties of to: its
// delay, jitter, rate and loss. Where the way the link is made cannot do that,
// the link is made anew, which interrupts it for some milliseconds and breaks
// no connection.
func (l *Lab) Delay(ctx context.Context, to Link) error {
	l.change.Lock()
	defer l.change.Unlock()
	i, ok := l.plan.link(to.A, to.B)
	if !ok {
		return fmt.Errorf("link %s-%s is unknown: use %s", to.A, to.B, l.linkNames())
	}
	if err := to.check(); err != nil {
		return err
	}
	l.mu.Lock()
	lp, w := l.links[i], l.wires[i]
	l.mu.Unlock()
	lp.Delay, lp.Jitter, lp.Rate, lp.Loss = to.Delay, to.Jitter, to.Rate, to.Loss
	if method := wireMethod(lp.Link, l.netem); w.method() == methodVeth && method != methodVeth {
		l.journal.write("link %s: %s replaced by %s", describe(lp.Link), w.method(), method)
		if err := w.close(); err != nil {
			return err
		}
		var err error
		if w, err = openWire(method, l.plan, lp, l.routers); err != nil {
			return err
		}
	} else {
		l.journal.write("link %s: %s", describe(lp.Link), w.method())
		if err := w.set(lp.Link); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.links[i], l.wires[i] = lp, w
	l.mu.Unlock()
	if err := l.applyRules(l.Cuts(), l.generation); err != nil {
		return err
	}
	l.log.Info("link changed", "lab", l.spec.Name, "link", describe(lp.Link))
	return l.verify(ctx)
}

func (l *Lab) linkNames() string {
	var names []string
	for _, lp := range l.plan.links {
		names = append(names, lp.A+"-"+lp.B)
	}
	return strings.Join(names, ", ")
}

// Links lists the links with the properties in force.
func (l *Lab) Links() []Link {
	l.mu.Lock()
	defer l.mu.Unlock()
	links := make([]Link, len(l.links))
	for i, lp := range l.links {
		links[i] = lp.Link
	}
	return links
}

// describe is a link in one line: "a-b delay 15ms rate 100Mbit".
func describe(l Link) string {
	s := l.A + "-" + l.B + " delay " + l.Delay.String()
	if l.Jitter > 0 {
		s += " jitter " + l.Jitter.String()
	}
	if l.Rate > 0 {
		s += fmt.Sprintf(" rate %gMbit", float64(l.Rate)/1e6)
	}
	if l.Loss > 0 {
		s += fmt.Sprintf(" loss %g%%", l.Loss*100)
	}
	return s
}

// method names how the links are made, for people and reports.
func (l *Lab) method() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	used := map[string]bool{}
	for _, w := range l.wires {
		used[w.method()] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(used)), "+")
}

package scenario

import (
	"cmp"
	"time"
)

const (
	// quickRecovery is how long a path is watched after its window: five samples at
	// the default interval prove that it is whole (package judge), and one timeout
	// lets a request that hung until then be counted.
	quickRecovery = 2500 * time.Millisecond
	// quickFloor is how long a fault lasts that no window is derived for: longer than
	// the slowest detector that a lab without Kubernetes has at default settings (10 s
	// until a silent connection is given up).
	quickFloor = 12 * time.Second
	// quickLeast is the shortest hold: a fault of a second or two is over before
	// everything that watches has looked twice.
	quickLeast = 5 * time.Second
	// quickRounds is how often a repeated fault is met at least: once is luck.
	quickRounds = 2
)

// Quick is the case with a hold as short as its timers allow: until the last event of its
// timetable (of a repeated fault, its second round), then the longest window that the
// given run may take, then the time in which a path shows that it is whole. It is
// never longer than the hold of the case. agents says for which run; its twin may need another.
func (c *Case) Quick(agents bool) *Case {
	out := *c
	out.Phases.Hold = min(c.Phases.Hold, c.neededHold(agents))
	return &out
}

// neededHold is the shortest hold in which a run can show what it has to.
func (c *Case) neededHold(agents bool) time.Duration {
	return max(quickLeast, c.lastEvent()+cmp.Or(c.longestWindow(agents), quickFloor)+quickRecovery)
}

// lastEvent is when the timetable is through; for a repeated step, when its second
// round is.
func (c *Case) lastEvent() time.Duration {
	var last time.Duration
	for _, f := range c.Faults {
		end := f.At + f.For
		if f.Every > 0 {
			end += (quickRounds - 1) * f.Every
		}
		last = max(last, end)
	}
	return last
}

// longestWindow is the longest time that anything judged may take in a run, from the
// fault on; 0 when nothing has one.
func (c *Case) longestWindow(agents bool) time.Duration {
	var longest time.Duration
	for _, e := range c.Expect {
		if e.Role != RoleAffected {
			continue
		}
		names := []string{e.Window} // a hold must outlast it in either run: see checkHold
		if !agents {
			names = append(names, e.Without)
		}
		longest = max(longest, c.longestOf(e, names))
	}
	return max(longest, c.longestBound(agents))
}

// longestOf is the longest of some windows over the paths of an expectation.
func (c *Case) longestOf(e Expectation, names []string) time.Duration {
	var longest time.Duration
	for _, p := range c.Paths {
		if !e.matches(p) {
			continue
		}
		for _, name := range names {
			if w, err := c.WindowOf(p, name); err == nil { // else it is no window, such as never
				longest = max(longest, w.Max)
			}
		}
	}
	return longest
}

// longestBound is the same for what is judged beside paths.
func (c *Case) longestBound(agents bool) time.Duration {
	var longest time.Duration
	if b := c.VIP.BGP; b != nil {
		name := b.Withdrawn
		if !agents {
			name = b.Without
		}
		if w, err := c.TimersOf("").Window(name); err == nil {
			longest = w.Max
		}
		longest = max(longest, b.Back)
	}
	if c.HasPair() && c.Pair.Survivor != SurvivorNone {
		longest = max(longest, c.Pair.AloneAfter)
	}
	if c.Agents.Has(AgentSlices) && c.Slices.Out > 0 {
		longest = max(longest, c.Slices.Out+c.Slices.AdoptedWithin())
	}
	if c.HasStores() {
		longest = max(longest, c.Stores.Patience+storesFail)
	}
	return max(longest, c.VIP.Gone)
}

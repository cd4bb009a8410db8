package scenario

import "time"

// announced is how long a router may go on sending to a machine whose service
// has failed its check: until the check says so, and the route is withdrawn.
func announced(t Timers) Window {
	return t.routed(
		term{t.Check, "the check has failed within"},
		term{t.Withdraw, "withdrawn from the router's table within"})
}

// closed is the same for a machine whose agent has ended, however: its kernel
// closes the session at once.
func closed(t Timers) Window {
	return t.routed(term{t.Withdraw, "the session ends, and the route with it, within"})
}

// detected is the same for a machine that is dead or cut off. The detection time
// is counted from the last packet heard (RFC 5880, section 6.8.4), which came
// before the machine fell silent.
func detected(t Timers) Window {
	w := t.routed(append(bfdTerms(BFDMultiplier, BFDInterval),
		term{t.Withdraw, "withdrawn from the router's table within"})...)
	// The last packet may be an interval old, of which jitter takes up to a
	// quarter (section 6.8.7).
	w.Min = BFD(BFDMultiplier, BFDInterval).Min - t.luck()
	return w
}

// holdTime is detected without BFD: the hold time counts from the last message, which
// may be a keepalive time old (RFC 4271, sections 4.4 and 6.5).
func holdTime(t Timers) Window {
	w := t.routed(append(holdTerms(DefaultHold),
		term{t.Withdraw, "withdrawn from the router's table within"})...)
	w.Min = Hold(DefaultHold, DefaultHold/3).Min - t.luck()
	return w
}

// checked is announced with the check of the run without the agents.
func checked(t Timers) Window {
	w := t.routed(append(checkTerms(PeerCheck, PeerFall),
		term{t.Withdraw, "withdrawn from the router's table within"},
		term{t.Script, "the script of the check itself"})...)
	w.Min = Checks(PeerCheck, 0, PeerFall).Min - t.luck()
	return w
}

// drained is how long a machine may be announced after it is told to be drained.
// Its pod serves on meanwhile.
func drained(t Timers) Window {
	return t.routed(
		term{t.Evict, "the machine is cordoned and its pod evicted within"},
		term{t.Told, "its endpoint is not ready any more, and known to be so, within"},
		term{t.Withdraw, "withdrawn from the router's table within"})
}

// luck is how long before the router knew a client may have had its last failure:
// of three requests one meets the machine that is gone, so that 20 in a row do not
// once in 3000 times. The router itself is asked for its table.
func (t Timers) luck() time.Duration {
	if t.Spread {
		return 20 * t.Interval
	}
	return 2 * t.Interval
}

// routed is a window of what a router spreads: it counts from the fault, since
// only some requests meet the machine that is gone.
func (t Timers) routed(terms ...term) Window {
	if t.Kept {
		// What was sent before is repeated at twice the time each, and the machine
		// that gets it then resets the connection.
		away := sum(0, terms).Max
		terms = append(terms, term{away + t.Repeat, "TCP repeats what was lost, at most as much later, and"})
	}
	return sum(0, append(terms, term{2 * t.Interval, "two samples"}, term{t.Noise, "margin of a busy machine"}))
}

// HopsInterval is how often the router is asked for its next hops.
const HopsInterval = 10 * time.Millisecond

// WindowOfHops derives the window called name for the router itself.
func (c *Case) WindowOfHops(name string) (Window, error) {
	t := c.TimersOf("")
	t.Interval, t.Kept = HopsInterval, false
	return t.Window(name)
}

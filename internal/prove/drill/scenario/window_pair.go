package scenario

import (
	"fmt"
	"time"
)

// pairLed is how long nobody can write at the survivor of a pair that led before, or
// is preferred: the agent must have no quorum for --lost-after, claim, stop its etcd,
// read the record again, edit the log and start etcd.
func pairLed(t Timers) Window { return t.alone() }

// pairFollowed is pairLed for a survivor that followed: it gives the former leader a
// head start.
func pairFollowed(t Timers) Window {
	return t.alone(term{t.HeadStart, "head start of the former leader"})
}

// pairBooted is pairFollowed for a member that has not met its peer since it came
// up: both sites may be coming up.
func pairBooted(t Timers) Window {
	return t.alone(term{t.Down, "the site is off for"}, term{t.HeadStart, "head start of the former leader"}, term{t.BootGrace, "patience for a peer that was not met yet"}, term{t.Restart, "etcd starts for the first time within"})
}

// pairWaits is pairFollowed where the arbiter is away meanwhile: it is asked again
// within a moment of its return.
func pairWaits(t Timers) Window {
	return sum(t.Arbiter, []term{
		{t.Arbiter, "the arbiter is away for"},
		{t.Ask, "asked again within"},
		{t.Claim, "claim, stop and reading again"},
		{t.Edit, "edit"},
		{t.Restart, "etcd starts within"},
		{t.Interval, "sampling"},
		{t.PairSlack, "margin of a busy machine"},
	})
}

// pairReturns is for both members that come back together: etcd elects by itself.
func pairReturns(t Timers) Window {
	return sum(t.Down, []term{
		{t.Down, "both sites are off for"},
		{t.Ask, "agent and arbiter"},
		{t.Restart, "etcd starts within"},
		{2 * t.Election, fmt.Sprintf("election 1–2 × %s", short(t.Election))},
		{t.Election, "one split vote"},
		{t.Interval, "sampling"},
		{t.PairSlack, "margin of a busy machine"},
	})
}

// pairGivenUp is for a member with old data that a person lets serve.
func pairGivenUp(t Timers) Window {
	return sum(t.GivenUp, []term{
		{t.GivenUp, "a person gives writes up after"},
		{t.Ask, "the record is read within"},
		{t.Restart, "etcd starts within"},
		{t.Claim + t.LostAfter, "no quorum, claim, stop and reading again"},
		{t.Edit, "edit"},
		{t.Restart, "etcd starts again within"},
		{t.Interval, "sampling"},
		{t.PairSlack, "margin of a busy machine"},
	})
}

// alone is the way from the last proof of a quorum to a member that serves alone.
// A quorum is proven every half second, so the fault may come just before the next.
func (t Timers) alone(more ...term) Window {
	terms := append([]term{{t.LostAfter, fmt.Sprintf("no quorum for %s:", short(t.LostAfter))}}, more...)
	w := sum(0, append(terms, []term{
		{t.Decide, "decided within"},
		{t.Claim, "claim, stop and reading again"},
		{t.Edit, "edit"},
		{t.Restart, "etcd starts within"},
		{t.Interval, "sampling"},
		{t.PairSlack, "margin of a busy machine"},
	}...))
	w.Min = t.LostAfter - t.Prove
	return w
}

// pairTimers are the agent's defaults.
func pairTimers(t Timers) Timers {
	t.LostAfter, t.HeadStart, t.BootGrace = 3*time.Second, 1500*time.Millisecond, 10*time.Second
	t.Prove, t.Decide, t.Ask, t.Claim = time.Second, 250*time.Millisecond, time.Second, 800*time.Millisecond
	t.Edit, t.Restart, t.PairSlack = 100*time.Millisecond, 2*time.Second, 700*time.Millisecond
	return t
}

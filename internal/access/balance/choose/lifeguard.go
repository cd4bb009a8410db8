package choose

import "time"

const (
	// together is how close failures must lie to count as one: a check period
	// with its retries, twice.
	together = 4 * time.Second
	// doubtFor is how long the node doubts itself. A switch restarts in less;
	// after it the backends are believed to be gone.
	doubtFor = 10 * time.Second
)

// Lifeguard tells "they all failed" from "I failed": when every backend of a
// pool becomes unusable within a moment, this node is the likelier cause, and
// for a while its verdicts are not acted on. The idea is that of Lifeguard
// (Dadgar, Phillips, Currey, 2017), where a member that fails to hear from
// anybody doubts itself.
//
// The zero value is ready. It is not safe for concurrent use.
type Lifeguard struct {
	usable int
	// several is when more than one backend was usable last.
	several time.Duration
	seen    bool
	// since is when the last one became unusable.
	since   time.Duration
	doubted bool
	none    bool
}

// Observe takes how many backends are usable now and returns whether the node
// doubts itself. It is called at every verdict, and about
// every second.
func (l *Lifeguard) Observe(now time.Duration, usable int) bool {
	if l.usable > 1 || usable > 1 {
		l.several, l.seen = now, true // several were, until this change
	}
	l.usable = usable
	switch {
	case usable > 0:
		l.none, l.doubted = false, false
	case !l.none:
		l.none, l.since = true, now
		l.doubted = l.seen && now-l.several <= together
	case l.doubted && now-l.since >= doubtFor:
		l.doubted = false
	}
	return l.doubted
}

// Relist takes how many backends are usable after the list has changed, which
// says nothing about this node: no doubt follows from it.
func (l *Lifeguard) Relist(now time.Duration, usable int) {
	l.usable = usable
	if usable <= 1 {
		l.seen = false
	}
	if usable > 0 {
		l.none, l.doubted = false, false
	} else if !l.none {
		l.none, l.since, l.doubted = true, now, false
	}
}

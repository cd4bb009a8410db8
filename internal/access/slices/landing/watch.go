package landing

import (
	"fmt"
	"slices"
	"time"
)

const (
	// Settle is how long the endpoints must have stood still before a connection
	// says something of the datapath: kube-proxy writes its rules at most a second
	// after it has heard, and two on a busy machine, and hears through another
	// watch than we do.
	Settle = 10 * time.Second
	// stale is when nothing is known any more: so long no connection could show
	// anything.
	stale = 10 * time.Minute
)

// State is what a node's connections have shown so far.
type State int

// The states.
const (
	Untold  State = iota // not known
	Honours              // so many stayed that it is no chance
	Ignores              // one strayed, and not enough have stayed since
)

func (s State) String() string { return [...]string{"unknown", "kept", "strays"}[s] }

// Watch follows the connections of one node, of which there is one now and then.
// It has no clock: now is a time since some start, and never goes back. The zero
// value is ready for use.
type Watch struct {
	state State
	// luck is how likely it is that as many connections in a row have stayed by
	// chance, with a datapath that passes hints over.
	luck     float64
	begun    bool
	told     time.Duration // when a connection last told something
	expected Expectation
	since    time.Duration // expected stands
	strays   []string      // where the last one landed
}

// See takes what is expected now. It is called for each change and may be called
// for none.
func (w *Watch) See(now time.Duration, e Expectation) {
	if !w.begun || !w.expected.equal(&e) {
		w.expected, w.since = e, now
	}
	if !w.begun {
		w.begun, w.luck, w.told = true, 1, now
	}
	if now-w.told > stale {
		w.state, w.luck, w.strays = Untold, 1, nil
	}
}

// Ready says that a connection that begins now could tell something.
func (w *Watch) Ready(now time.Duration) bool {
	return w.begun && w.expected.share() < 1 && now-w.since >= Settle
}

// Outcome is what one connection told.
type Outcome string

// The outcomes.
const (
	Stayed  Outcome = "stayed"
	Strayed Outcome = "strayed"
	Silent  Outcome = "untold" // it tells nothing
)

// Weigh says what the end of a connection that began at a time tells: who are
// the endpoints that show the certificate that answered it, none if it was lost.
func (w *Watch) Weigh(began time.Duration, who []string) Outcome {
	// What is expected must have stood from Settle before it began to its end.
	if !w.Ready(began) {
		return Silent
	}
	switch placeOf(who, &w.expected) {
	case strayed:
		return Strayed
	case stayed:
		return Stayed
	}
	return Silent
}

// Note takes what Weigh says. A stray is noted only when what is expected has
// been read anew after it: a watch that has stalled would blame a datapath that
// knows more than we do.
func (w *Watch) Note(began, now time.Duration, who []string) Outcome {
	outcome := w.Weigh(began, who)
	switch outcome {
	case Strayed:
		w.state, w.luck, w.told, w.strays = Ignores, 1, now, slices.Clone(who)
	case Stayed:
		w.luck, w.told = w.luck*w.expected.share(), now
		if w.luck <= Chance {
			w.state, w.luck, w.strays = Honours, Chance, nil
		}
	}
	return outcome
}

// Expects says that this is what is expected.
func (w *Watch) Expects(e Expectation) bool { return w.begun && w.expected.equal(&e) }

// State is what is known.
func (w *Watch) State() State { return w.state }

// Complaint is what a person has to know, "" while nobody strays. cause is as
// in Trial.
func (w *Watch) Complaint(node, zone, cause string) string {
	if w.state != Ignores {
		return ""
	}
	return fmt.Sprintf("a connection of node %s to the Service left zone %s, to an endpoint that is not hinted for it (%s): %s", node, zone, list(w.strays), cause)
}

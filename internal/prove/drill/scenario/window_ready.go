package scenario

import (
	"fmt"
	"time"
)

// Unready is how long the kubelet goes on calling a pod ready whose program stands
// still: so many probes in a row must fail, the first of which comes within a
// period, and the last times out.
func Unready(period, timeout time.Duration, failures int) Window {
	w := sum(0, readinessTerms(Readiness{Period: period, Timeout: timeout, Failures: failures}))
	w.Min = time.Duration(failures-1)*period + timeout
	return w
}

func readinessTerms(r Readiness) []term {
	return []term{
		{time.Duration(r.Failures) * r.Period, fmt.Sprintf("%d readiness probes fail, one every %s:", r.Failures, short(r.Period))},
		{r.Timeout, "the last one times out after"},
	}
}

// serviceHung is what a client of a Service notices of a pod whose program stands
// still: it is asked until its readiness probe has failed often enough, the
// endpoints say so and kube-proxy has written it.
func serviceHung(t Timers) Window {
	w := t.leaves(readinessTerms(t.Readiness)...)
	if !t.Spread { // else the last request to meet the pod may have come long before
		w.Min = Unready(t.Readiness.Period, t.Readiness.Timeout, t.Readiness.Failures).Min
	}
	return w
}

// serviceDeleted is what it notices of a pod that is deleted: its endpoint is out as
// soon as that is known.
func serviceDeleted(t Timers) Window { return t.leaves() }

// leaves is the way from a pod that is known to be unfit to a client that does not
// meet it any more. Nobody resets a kept connection: its request times out.
func (t Timers) leaves(before ...term) Window {
	terms := append(before, []term{
		{t.Slice, "the endpoints follow within"},
		{t.Sync, "kube-proxy writes within"},
	}...)
	if t.Kept {
		terms = append(terms, term{t.Timeout, "a request over a kept connection times out:"}, term{t.Reconnect, "client reconnects"})
	}
	return sum(0, append(terms, term{t.Interval, "sampling"}, term{t.Margin, "margin of a busy machine"}))
}

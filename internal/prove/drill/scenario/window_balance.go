package scenario

import (
	"fmt"
	"time"
)

// balance is what a balancer promises when a backend that still accepts cannot
// serve: is frozen, not ready, or behind a cut.
func balance(t Timers) Window {
	if t.Kept {
		return sum(0, append([]term{
			{t.Reset, "kept connections are reset within"},
			{t.Reconnect, "client reconnects"},
		}, t.shown()...))
	}
	return sum(0, append([]term{{t.Move, "new connections move within"}}, t.shown()...))
}

// defaultEtcdCheck is kube-apiserver's own (--etcd-readycheck-timeout).
const defaultEtcdCheck = 2 * time.Second

// unready is balance for an apiserver that has lost its etcd: until it knows
// that itself, nothing tells it from a good one but requests that hang.
func unready(t Timers) Window {
	w := balance(t)
	knows := term{t.EtcdCheck + t.EtcdCheck/2, "the apiserver itself notices within 1.5 × etcd check " + short(t.EtcdCheck)}
	first := sum(0, []term{knows})
	w.Max += first.Max
	w.Why = append(first.Why, w.Why...)
	return w
}

// leaderless is what a balancer in front of etcd promises for a member that has
// lost its leader: the member knows after two elections at most, until then its
// requests wait, and the apiserver behind the balancer tries them again.
func leaderless(t Timers) Window {
	return sum(0, append([]term{
		{2 * t.Election, "the member knows that it has no leader within 2 elections"},
		{t.Reset, "kept connections are reset within"},
		{t.Reconnect, "the apiserver reconnects"},
	}, t.seen()...))
}

// refused is what it promises when the backend refuses: a new connection never
// fails, and a kept one dies with the backend and is opened anew.
func refused(t Timers) Window {
	if t.Kept {
		return sum(0, append([]term{{t.Reconnect, "client reconnects"}}, t.shown()...))
	}
	return Window{Why: []string{"a refused connection goes to another backend, unnoticed"}}
}

// served is what it promises when every backend was down and one comes back.
func served(t Timers) Window {
	terms := append([]term{{t.Serve, "served after the first apiserver is ready within"}}, t.shown()...)
	if t.Kept {
		terms = append(terms, term{t.Reconnect, "client reconnects"})
	}
	w := sum(0, terms)
	w.Served = w.Max
	w.Max += t.Down + t.Start
	w.Why = append(w.Why, fmt.Sprintf("(down for %s, ready again within %s)", short(t.Down), short(t.Start)))
	return w
}

// shown is what stands between a balancer that works and a sample that shows it.
func (t Timers) shown() []term {
	return []term{{t.Interval, "sampling"}, {t.Slack, "margin of a busy machine"}}
}

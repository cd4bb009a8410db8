package scenario

// serviceSplit is what a pod may notice of a partial split: the apiserver of its
// zone has no etcd until an agent has moved the leader. The pod is sent
// elsewhere meanwhile at best; a kept connection stays where it is.
func serviceSplit(t Timers) Window {
	w := takeover(t)
	w.Min = 0 // a pod that was sent to another apiserver notices nothing
	if t.Kept {
		last := sum(0, []term{{t.Timeout, "a kept connection may have to be replaced, when its request times out:"}})
		w.Max += last.Max
		w.Why = append(w.Why, last.Why...)
	}
	return w
}

// serviceAdopt is what a pod may notice when the only apiserver of its zone is
// gone: a new connection is refused until another zone's has adopted it and
// kube-proxy knows, and so is the one that replaces a kept one.
func serviceAdopt(t Timers) Window {
	terms := []term{
		{t.Leave, "out of the endpoints of its zone within"},
		{t.Adopt, "zone adopted within"},
		{t.Sync, "kube-proxy writes within"},
	}
	if t.Kept {
		terms = append(terms, term{t.Reconnect, "client reconnects"})
	}
	return sum(0, append(terms, t.shown()...))
}

// serviceSilent is serviceAdopt for an apiserver that still accepts and says
// nothing. Nobody resets what is established: kube-proxy leaves it alone, so a
// kept connection lasts until its client gives it up.
func serviceSilent(t Timers) Window { return lingering(t) }

// serviceStalled is serviceSilent for an apiserver that lives and answers no
// request: its HTTP/2 answers the ping that a client sends when the first times out,
// and the silence begins then.
func serviceStalled(t Timers) Window {
	return lingering(t, term{t.Timeout, "the first request times out, and the ping after it is answered:"})
}

func lingering(t Timers, before ...term) Window {
	w := serviceAdopt(t)
	if !t.Kept {
		return w
	}
	kept := sum(0, append(append(before, []term{
		{t.GiveUp, "a kept connection that is silent is given up after"},
		{t.Interval, "noticed by the next request"},
		{t.Reconnect, "client reconnects"},
	}...), t.shown()...))
	if kept.Max > w.Max {
		return kept
	}
	return w
}

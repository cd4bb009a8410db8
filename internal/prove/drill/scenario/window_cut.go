package scenario

// keptSilent is how long a client stays with a connection that fell silent, where
// nobody resets it: until it gives it up. The request that was owed an answer at
// the fault may have been sent two intervals before.
func keptSilent(t Timers) Window {
	w := sum(0, append([]term{
		{t.GiveUp, "a kept connection that is silent is given up after"},
		{t.Interval, "noticed by the next request"},
		{t.Reconnect, "client reconnects"},
	}, t.shown()...))
	w.Min = t.GiveUp - 2*t.Interval
	return w
}

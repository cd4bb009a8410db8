package relay

// Stats are an engine's counters at one moment. Those of a target are read from
// the Target itself.
type Stats struct {
	// Active is the number of open client connections, Waiting that of those
	// in queues, Loops that of event loops.
	Active, Waiting, Loops int
	// Frontends are the listeners in the order in which they were served.
	Frontends []FrontendStats
}

// FrontendStats are the counters of one listener since it was served.
type FrontendStats struct {
	Name string
	// Active, Waiting: open connections, and those of them in queues.
	Active, Waiting int
	// Accepted counts clients.
	Accepted uint64
	// Events counts by kind what happened; kinds that did not are missing.
	Events map[EventKind]uint64
}

// TargetStats are the counters of one target since it was made.
type TargetStats struct {
	Target             *Target
	Active, Connecting int
	// Total, Failed, Broken: see the methods of Target.
	Total, Failed, Broken uint64
	BytesIn, BytesOut     uint64
}

// Stats reads the target's counters.
func (t *Target) Stats() TargetStats {
	return TargetStats{
		Target: t, Active: t.Active(), Connecting: t.Connecting(),
		Total: t.Total(), Failed: t.Failed(), Broken: t.Broken(), BytesIn: t.BytesIn(), BytesOut: t.BytesOut(),
	}
}

// Stats reads the listener's counters.
func (ln *Listener) Stats() FrontendStats {
	s := FrontendStats{Name: ln.set.Load().Name, Active: ln.Active(), Accepted: ln.accepted.Load(), Events: map[EventKind]uint64{}}
	for k := range ln.events {
		if n := ln.events[k].Load(); n > 0 {
			s.Events[EventKind(k)] = n
		}
	}
	ln.mu.Lock()
	defer ln.mu.Unlock()
	for _, q := range ln.queues {
		s.Waiting += int(q.length.Load())
	}
	return s
}

// Stats reads the counters of the engine and its listeners, without stopping
// anything.
func (e *Engine) Stats() Stats {
	s := Stats{Active: e.Active(), Waiting: int(e.waiting.Load()), Loops: len(e.loops)}
	for _, ln := range e.current() {
		s.Frontends = append(s.Frontends, ln.Stats())
	}
	return s
}

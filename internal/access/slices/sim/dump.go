package sim

// dump tells what is stored, and what each agent makes of it.
func (w *World) dump() {
	if w.Trace == nil {
		return
	}
	for o := firstSlice; o < firstAgent; o++ {
		if s := w.store.slice(o); s != nil {
			w.trace("  | %s %s zone %q hints %v ready %t by %q", s.Name, s.Version, s.Zone, s.Hints, s.Ready, s.UnreadyBy)
		}
	}
	if c := w.store.kubernetes(); c != nil {
		w.trace("  | kubernetes of owner %d, probe %q: %v", c.Owner, c.Probe, c.Members)
	}
	for i := range w.n {
		a, m := &w.agents[i], &w.machines[i]
		w.trace("  | node %s zone %q ready %t: agent up %t, answered %t, finds %d, phase %d", name(i), m.zone, w.ready(i), a.up, w.answered(i), a.self.Health, a.phase)
		if a.up && w.answered(i) {
			w.observe(a)
			w.trace("  |   %+v", a.observer.Facts(a.clock(w.now)))
		}
	}
}

package sim

import (
	"fmt"
	"time"
)

func (m *member) name() string { return names[m.site] }

// start runs etcd at a site; join: with the cluster that the other site has.
func (w *World) start(site int, join bool) {
	m := &w.members[site]
	if m.up {
		return
	}
	m.life++
	m.up, m.booted, m.ending, m.join, m.frozen = true, false, false, join, 0
	m.d = nil
	w.trace("%s: etcd starts", m.name())
	w.after(w.between(50*time.Millisecond, w.shape.Boot), event{what: evBoot, a: int8(site), life: m.life})
}

// boot is etcd's own start: it reads its directory, or makes one.
func (w *World) boot(m *member) {
	s := &w.sites[m.site]
	if s.dir == nil {
		if s.dir = w.newDir(m); s.dir == nil {
			w.trace("%s: etcd ends, it finds no cluster to join", m.name())
			w.exit(m, 0)
			return
		}
	}
	d := s.dir
	if d.half || d.damaged {
		w.trace("%s: etcd ends, its directory is damaged", m.name())
		w.exit(m, 0)
		return
	}
	m.d, m.booted, s.lost = d, true, false
	m.role, m.lead, m.heard = follower, 0, w.now
	m.commit, m.conf, m.gone = d.commit, d.confAt(d.commit), d.gone(d.commit, m.gone[:0])
	m.match, m.next, m.snap = 0, len(d.log)+1, 0
	w.judge.booted(w, m)
	first := w.between(electionTimeout, 2*electionTimeout)
	w.after(first, event{what: evElect, a: int8(m.site), life: m.life})
}

// newDir is what a first start makes.
func (w *World) newDir(m *member) *dir {
	if !m.join {
		return &dir{id: id(m.site + 1), base: conf{voters: [2]id{1, 2}}}
	}
	other := &w.members[1-m.site]
	l := w.quorate(other)
	if l == nil || !w.linked() {
		return nil
	}
	for _, one := range []id{l.conf.learner, l.conf.voters[0], l.conf.voters[1]} {
		if one != 0 && w.siteOf(one) == m.site {
			return &dir{id: one, epoch: l.d.epoch}
		}
	}
	return nil
}

// exit ends the process in a while. A signal or a loss of power is a crash.
func (w *World) exit(m *member, d time.Duration) {
	if m.ending && d > 0 {
		return
	}
	m.ending = true
	if d == 0 {
		w.gone(m)
		return
	}
	w.after(d, event{what: evExit, a: int8(m.site), life: m.life})
}

func (w *World) gone(m *member) {
	if !m.up {
		return
	}
	if m.booted && m.d != nil {
		w.crash(m)
	}
	m.up, m.booted, m.ended = false, false, w.now
	m.life++
}

// linked reports whether the sites reach each other both ways.
func (w *World) linked() bool { return w.open[0][1] && w.open[1][0] }

// quorate is the leader through which a member answers linearizable reads now,
// once it has applied what the leader has; nil if it does not.
func (w *World) quorate(m *member) *member {
	if !w.runs(m) || m.lead == 0 {
		return nil
	}
	l := m
	if m.lead != m.d.id {
		if l = &w.members[1-m.site]; !w.linked() || !w.runs(l) || l.d.id != m.lead || m.d.term != l.d.term {
			return nil
		}
	}
	if l.role != leader || l.d.termAt(l.commit) != l.d.term {
		return nil
	}
	if l.conf.count() == 2 {
		p := &w.members[1-l.site]
		if !w.linked() || !w.runs(p) || p.d.term != l.d.term || p.lead != l.d.id || !l.conf.votes(p.d.id) {
			return nil
		}
	}
	w.judge.read(w, l)
	return l
}

// request is what a client asks of a member: it goes to the leader, and may be
// lost. 0: it was not taken.
func (w *World) request(m *member, e entry) uint32 {
	if !w.runs(m) || m.lead == 0 {
		return 0
	}
	l := m
	if m.lead != m.d.id {
		if l = &w.members[1-m.site]; !w.linked() || !w.runs(l) || l.d.id != m.lead {
			return 0
		}
	}
	if l.role != leader || e.kind >= remove && !w.allowed(l, e) {
		return 0
	}
	return w.propose(l, e)
}

// allowed is what etcd asks before it proposes a change of the membership.
func (w *World) allowed(l *member, e entry) bool {
	for _, pending := range l.d.log[l.commit:] {
		if pending.kind >= remove {
			return false
		}
	}
	switch e.kind {
	case remove:
		return l.conf.has(e.arg) && (e.arg == l.conf.learner || l.conf.count() == 2)
	case addLearner:
		return l.conf.learner == 0 && l.conf.count() == 1
	}
	ready := l.match > 0 && l.match*10 >= len(l.d.log)*9 && w.now-l.answer < electionTimeout
	return l.conf.learner == e.arg && ready
}

// applied reports whether a member has applied the entry with uid.
func (m *member) applied(uid uint32) bool {
	for i := m.commit - 1; i >= 0; i-- {
		if m.d.log[i].uid == uid {
			return true
		}
	}
	return false
}

func (w *World) siteOf(m id) int { return int(w.idSite[m]) }

// newID is that of a member that a site has added.
func (w *World) newID(site int) id {
	w.idSite = append(w.idSite, int8(site))
	return id(len(w.idSite) - 1)
}

func (w *World) change(e entry) string {
	verb := map[kind]string{remove: "removal", addLearner: "addition as learner", promote: "promotion"}[e.kind]
	return fmt.Sprintf("the %s of %s (%d)", verb, names[w.siteOf(e.arg)], e.arg)
}

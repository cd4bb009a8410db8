package sim

import (
	"bytes"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
)

// judge knows the truth and says what was broken.
type judge struct {
	// truth are the entries that some member ever knew to be committed: whoever wrote
	// them may have been told so. Both says of each that two voters had it.
	truth []fact
	conf  conf // after the last of them
	// changed and both are the last of them that changed the voters, and that two
	// voters had, counted from 1.
	changed, both int
	// epoch counts the losses that a person accepted. What members of an
	// earlier one do is the person's business.
	epoch  int
	forced int // the site whose log is to become the truth; -1: none
	claims [2]licence
	// untouched: nothing is broken but the arbiter, and nobody may stop etcd.
	untouched bool
	// byHand: a person has taken a member out, and the record may not say so.
	byHand bool

	Claims, Edits, Pairs, Asides, Writes int
	broken                               string
}

type fact struct {
	uid  uint32
	both bool
}

// licence is a change of the record to solo that landed.
type licence struct {
	life  uint32
	nonce string
	used  bool
	// read is when its agent last read it.
	read time.Duration
}

func (w *World) breach(format string, args ...any) {
	if w.judge.broken == "" {
		w.judge.broken = fmt.Sprintf("at %s: ", w.now) + fmt.Sprintf(format, args...)
		w.trace("BROKEN: %s", w.judge.broken)
	}
}

// committed judges that a member takes entry i for committed.
func (j *judge) committed(w *World, m *member, i int, e entry, both bool) {
	switch {
	case m.d.epoch != j.epoch:
	case i < len(j.truth) && j.truth[i].uid != e.uid:
		w.breach("%s commits another entry %d: an acknowledged write is lost, or there are two histories", m.name(), i+1)
	case i == len(j.truth):
		j.add(e, both)
	}
}

func (j *judge) add(e entry, both bool) {
	j.truth = append(j.truth, fact{e.uid, both})
	if both {
		j.both = len(j.truth)
	}
	if e.kind == write {
		j.Writes++
	}
	if e.kind >= remove {
		next := j.conf.apply(e)
		if next.voters != j.conf.voters {
			j.changed = len(j.truth)
		}
		j.conf = next
	}
}

// givenUp is the epoch of a directory whose loss a person accepted.
const givenUp = -1

// booted judges a directory that etcd has begun with.
func (j *judge) booted(w *World, m *member) {
	d := m.d
	if j.forced == m.site && m.conf.count() == 1 && m.conf.votes(d.id) {
		j.adopt(w, m)
	}
	if j.forced == 1-m.site && m.conf.count() == 1 && m.conf.votes(d.id) {
		// A person has given up what this one is about to serve, and its agent has yet
		// to read that: it had its licence from before.
		d.epoch = givenUp
	}
	if d.epoch != j.epoch {
		return
	}
	for i, e := range d.log[:m.commit] {
		if i == len(j.truth) {
			j.add(e, false)
		} else if j.truth[i].uid != e.uid {
			w.breach("%s starts with another entry %d than was committed", m.name(), i+1)
			return
		}
	}
	j.look(w)
}

// alone judges a member that has become the only one while it ran: an edit of which
// half came to the disk leaves that to a quorum, which may still be had.
func (j *judge) alone(w *World, m *member) {
	if j.forced == m.site && m.d.epoch != j.epoch && m.conf.count() == 1 && m.conf.votes(m.d.id) {
		j.adopt(w, m)
	}
}

// adopt makes a log the truth for which a person has accepted a loss. What two
// voters had is in it all the same.
func (j *judge) adopt(w *World, m *member) {
	for i, f := range j.truth {
		if f.both && (i >= len(m.d.log) || m.d.log[i].uid != f.uid) {
			w.breach("the loss that a person accepted for %s takes entry %d, which both had acknowledged", m.name(), i+1)
		}
	}
	j.epoch++
	j.forced, m.d.epoch = -1, j.epoch
	j.truth, j.conf, j.changed, j.both = j.truth[:0], m.d.base, 0, 0
	for _, e := range m.d.log[:m.commit] {
		j.add(e, false)
	}
}

// look judges who can write alone.
func (j *judge) look(w *World) {
	for i := range w.members {
		m := &w.members[i]
		if !m.booted || m.d.epoch != j.epoch || m.conf.count() != 1 || !m.conf.votes(m.d.id) {
			return
		}
	}
	w.breach("both members can acknowledge writes alone")
}

// read judges that a linearizable read would be answered.
func (j *judge) read(w *World, l *member) {
	if l.d.epoch == j.epoch && l.commit < len(j.truth) {
		w.breach("%s answers reads as of entry %d, and %d are committed", l.name(), l.commit, len(j.truth))
	}
}

func decode(data []byte) arbiter.Record {
	r, err := arbiter.Decode(data)
	if err != nil {
		panic(err) // a client wrote it
	}
	return r
}

// reading notes a read of the record by an agent.
func (j *judge) reading(w *World, site int, life uint32, data []byte) {
	if c := &j.claims[site]; c.nonce != "" && !c.used && c.life == life && bytes.Contains(data, []byte(c.nonce)) {
		c.read = w.now
	}
}

// swapped judges a change of the record by an agent.
func (j *judge) swapped(w *World, site int, life uint32, data []byte) {
	was, now := w.record, decode(data)
	name := names[site]
	w.trace("the record: %s %s, generation %d, by %s", now.State, now.Survivor, now.Generation, name)
	switch {
	case now.Generation != was.Generation+1:
		w.breach("%s writes generation %d after %d", name, now.Generation, was.Generation)
	case now.State == arbiter.Solo && now.Survivor != name:
		w.breach("%s writes solo(%s)", name, now.Survivor)
	case was.State == arbiter.Solo && was.Survivor != name:
		w.breach("%s takes over from solo(%s)", name, was.Survivor)
	}
	if now.State == arbiter.Solo {
		j.Claims++
		j.claims[site] = licence{life: life, nonce: now.Nonce}
		return
	}
	j.Pairs++
	j.forced = -1
	switch {
	case j.conf.count() != 2 && !j.byHand:
		w.breach("%s writes paired, and the cluster has %d voters", name, j.conf.count())
	case j.both <= j.changed && j.changed > 0 && !j.byHand:
		w.breach("%s writes paired, and both have acknowledged nothing since", name)
	}
}

// edits judges that an agent is about to edit its directory.
func (j *judge) edits(w *World, a *agent) {
	name, c := names[a.site], &j.claims[a.site]
	j.Edits++
	if j.forced == a.site {
		w.sites[a.site].dir.epoch = -1 // of none, until it is started and becomes the truth
	}
	switch {
	case a.member().up:
		w.breach("%s edits the log of a running etcd", name)
	case c.nonce == "" || c.life != a.life || c.used:
		w.breach("%s edits without a claim of its own", name)
	case c.read < a.member().ended || c.read == 0:
		w.breach("%s edits, and has not read its claim since etcd stopped", name)
	}
	c.used = true
}

// stops judges that an agent stops etcd.
func (j *judge) stops(w *World, m *member) {
	if j.untouched {
		w.breach("%s: etcd is stopped, with nothing broken but the arbiter", m.name())
	}
}

// setsAside judges that a directory is moved away.
func (j *judge) setsAside(w *World, a *agent) {
	j.Asides++
	r, d := w.record, w.sites[a.site].dir
	if w.newest.Generation > 0 {
		r = w.newest // what the arbiter says now is from a backup
	}
	switch {
	case !r.SoloOf(names[1-a.site]) && !r.Forced && !j.byHand: // what a person does, a person knows
		w.breach("%s sets its data aside, and the record is %s %s", names[a.site], r.State, r.Survivor)
	case j.forced < 0 && j.conf.has(d.id) && (j.conf.votes(d.id) || d.base.count() > 0):
		w.breach("%s sets its data aside, and the survivor has it as a member", names[a.site])
	}
}

package sim

import "slices"

// id is etcd's of a member. A site has another one each time it joins anew.
type id = uint64

type kind uint8

const (
	noop       kind = iota // of a new leader
	write                  // a client's, or a barrier
	remove                 // arg: whom
	addLearner             // arg: whom
	promote                // arg: whom
)

// entry is one of a log. No two have one uid.
type entry struct {
	term uint32
	uid  uint32
	arg  id
	kind kind
}

// conf is a membership. A pair has at most two.
type conf struct {
	voters  [2]id // 0: none
	learner id
}

func (c conf) votes(m id) bool { return m != 0 && (c.voters[0] == m || c.voters[1] == m) }
func (c conf) has(m id) bool   { return m != 0 && (c.votes(m) || c.learner == m) }
func (c conf) count() int {
	n := 0
	for _, v := range c.voters {
		if v != 0 {
			n++
		}
	}
	return n
}

// other is the one that is not m.
func (c conf) other(m id) id {
	for _, v := range c.voters {
		if v != 0 && v != m {
			return v
		}
	}
	if c.learner != m {
		return c.learner
	}
	return 0
}

// apply changes it as etcd does, which rejects what makes no sense.
func (c conf) apply(e entry) conf {
	switch {
	case e.kind == remove && c.learner == e.arg:
		c.learner = 0
	case e.kind == remove:
		for i, v := range c.voters {
			if v == e.arg {
				c.voters[i] = 0
			}
		}
	case e.kind == addLearner && c.learner == 0 && c.count() == 1:
		c.learner = e.arg
	case e.kind == promote && c.learner == e.arg:
		c.learner = 0
		if c.voters[0] == 0 {
			c.voters[0] = e.arg
		} else {
			c.voters[1] = e.arg
		}
	}
	return c
}

// dir is a member's data directory.
type dir struct {
	id   id
	base conf // before the first entry
	log  []entry
	// synced is how much of the log a loss of power leaves.
	synced int
	term   uint32
	vote   id
	// commit is what was last stored of the commit index.
	commit int
	// epoch counts the losses that a person accepted before this one was written.
	epoch int
	// half says that it was being moved aside.
	half bool
	// damaged says that neither etcd nor an edit takes it.
	damaged bool
}

func (d *dir) lastTerm() uint32 { return d.termAt(len(d.log)) }

func (d *dir) termAt(i int) uint32 {
	if i < 1 || i > len(d.log) {
		return 0
	}
	return d.log[i-1].term
}

// confAt is the membership after entry i.
func (d *dir) confAt(i int) conf {
	c := d.base
	for _, e := range d.log[:i] {
		if e.kind >= remove {
			c = c.apply(e)
		}
	}
	return c
}

// gone are those removed up to entry i.
func (d *dir) gone(i int, into []id) []id {
	for _, e := range d.log[:i] {
		if e.kind == remove && !slices.Contains(into, e.arg) {
			into = append(into, e.arg)
		}
	}
	return into
}

// verdict is what package wal would say of it.
type verdict struct {
	others []id // whom an edit removes
	// end is the membership after the last entry.
	end conf
	// voters are the most in any configuration that may be in force.
	voters int
	// selfVotes says that self is a voter in all of them.
	selfVotes bool
}

func (d *dir) examine() verdict {
	c := d.confAt(d.commit)
	var v verdict
	v.selfVotes = true
	v.take(d.id, c)
	for _, e := range d.log[d.commit:] {
		if e.kind >= remove {
			c = c.apply(e)
			v.take(d.id, c)
		}
	}
	v.end = c
	return v
}

func (v *verdict) take(self id, c conf) {
	v.voters = max(v.voters, c.count())
	v.selfVotes = v.selfVotes && c.votes(self)
	if o := c.other(self); o != 0 && !slices.Contains(v.others, o) {
		v.others = append(v.others, o)
	}
	if l := c.learner; l != 0 && l != self && !slices.Contains(v.others, l) {
		v.others = append(v.others, l)
	}
}

// crash leaves what a loss of power or a signal would: all that was synced, and
// perhaps some of the rest.
func (w *World) crash(m *member) {
	d := m.d
	keep := d.synced + w.intn(len(d.log)-d.synced+1)
	known := d.commit + w.intn(max(0, min(m.commit, d.synced)-d.commit)+1)
	d.log, d.synced, d.commit = d.log[:keep], keep, max(known, d.commit)
}

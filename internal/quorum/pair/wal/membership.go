package wal

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Member is one member as of the end of the log.
type Member struct {
	ID      ID       `json:"id"`
	Name    string   `json:"name,omitempty"`
	URLs    []string `json:"peer_urls,omitempty"`
	Learner bool     `json:"learner,omitempty"`
	// Source says what the membership rests on.
	Source Source `json:"source"`
}

// ID is a member's or cluster's, printed as etcd does.
type ID uint64

func (id ID) String() string { return fmt.Sprintf("%x", uint64(id)) }

// MarshalText prints as String does; as a JSON number it would lose digits.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (id *ID) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 16, 64)
	if err != nil {
		return fmt.Errorf("read id: %w", err)
	}
	*id = ID(v)
	return nil
}

// Source is what a member's place in the configuration rests on.
type Source string

const (
	// FromStore: the database of etcd and the log up to the same entry name it.
	FromStore Source = "store"
	// FromCommitted: a change that was committed, but is not in the database yet.
	FromCommitted Source = "committed change"
	// FromUncommitted: a change that is not known to be committed here. The edit
	// commits it, since the lost leader may have.
	FromUncommitted Source = "uncommitted change"
)

// membership is who belongs to the cluster, by id.
type membership map[uint64]Member

func (m membership) voters() int {
	n := 0
	for _, one := range m {
		if !one.Learner {
			n++
		}
	}
	return n
}

// replay applies a change the way etcd does: what etcd would reject leaves the
// membership as it was (membership.RaftCluster.ValidateConfigurationChange).
// Of what it may reject, an addition with another's peer URL counts all the same,
// since the removal of an unknown member does no harm.
func (m membership) replay(c change, source Source) {
	one, known := m[c.node]
	switch c.typ {
	case changeAdd:
		if known && one.Learner && c.promotes() {
			one.Learner, one.Source = false, source
			m[c.node] = one
		}
		if !known && !c.promotes() {
			m[c.node] = Member{ID: ID(c.node), Source: source}
		}
	case changeAddLearner:
		if !known {
			m[c.node] = Member{ID: ID(c.node), Learner: true, Source: source}
		}
	case changeRemove:
		delete(m, c.node)
	}
}

// timeline is the membership at every index that matters.
type timeline struct {
	// known is the index up to which entries are known to be committed, and then
	// the membership at it.
	known  uint64
	atKnow membership
	// end is the membership after the last entry.
	end membership
	// others are all members but self at known or added after it: whoever may
	// have a vote in any configuration that could be in force.
	others membership
	// voters is the most voters of any of those configurations.
	voters int
	// selfVotes says that self is a voter in all of them.
	selfVotes bool
}

// follow finds out who belongs to the cluster. The database is the truth up to
// its consistent index, and must agree with the log; what follows stands in the
// log alone.
func follow(l *log, base snapshotMark, s stored) (timeline, error) {
	at, err := agreed(l, base, s)
	if err != nil {
		return timeline{}, err
	}
	t := timeline{known: max(l.hard.Commit, s.consistent)}
	tail := l.changes
	for len(tail) > 0 && tail[0].Index <= t.known {
		if tail[0].Index > s.consistent {
			at.replay(tail[0], FromCommitted)
		}
		tail = tail[1:]
	}
	t.atKnow = maps.Clone(at)
	t.others = maps.Clone(at)
	t.observe(at, l.member)
	for _, c := range tail {
		at.replay(c, FromUncommitted)
		t.observe(at, l.member)
		for id, m := range at {
			t.others[id] = m
		}
	}
	t.end = at
	delete(t.others, l.member)
	return t, nil
}

func (t *timeline) observe(m membership, self uint64) {
	first := t.voters == 0
	t.voters = max(t.voters, m.voters())
	me, ok := m[self]
	t.selfVotes = (first || t.selfVotes) && ok && !me.Learner
}

// agreed is the membership at the database's consistent index. Where database
// and log differ, etcd 3.6 would stop at the removal, and every later start
// would again: it is no directory to edit.
func agreed(l *log, base snapshotMark, s stored) (membership, error) {
	logged := membership{}
	if base.conf != nil {
		for _, id := range base.conf.voters {
			logged[id] = Member{ID: ID(id)}
		}
		for _, id := range base.conf.learners {
			logged[id] = Member{ID: ID(id), Learner: true}
		}
	}
	added := map[uint64]bool{} // by the log after base; etcd may have rejected it
	for _, c := range l.changes {
		if c.Index > base.index && c.Index <= s.consistent {
			logged.replay(c, FromStore)
			added[c.node] = true
		}
	}
	m := membership{}
	for id, one := range s.members {
		m[id] = Member{ID: ID(id), Name: one.Name, URLs: one.PeerURLs, Learner: one.IsLearner, Source: FromStore}
	}
	remedy := "start this member with its cluster on the newest patch release of its etcd, which mends this"
	for _, id := range slices.Sorted(maps.Keys(m)) {
		have, ok := logged[id]
		if !ok {
			return nil, refuse(Disagree, remedy, "the database has member %x, the log does not", id)
		}
		if have.Learner != m[id].Learner && id == l.member {
			return nil, refuse(Disagree, remedy, "database and log differ on whether member %x is a learner", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(logged)) {
		if _, ok := m[id]; !ok && !added[id] {
			return nil, refuse(Disagree, remedy, "the log has member %x, the database does not", id)
		}
	}
	return m, nil
}

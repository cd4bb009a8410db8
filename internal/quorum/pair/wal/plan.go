package wal

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Plan is what an edit of a directory would do, or has done.
type Plan struct {
	Version int    `json:"version"` // of this document
	Etcd    string `json:"etcd"`    // "3.6"; empty where the cluster is too young to have agreed on one
	Cluster ID     `json:"cluster"`
	Self    ID     `json:"member"`

	Hard HardState `json:"hard_state"`
	Last Position  `json:"last"`
	// Known is the index up to which this member knows entries to be committed:
	// what its log says, or its database, which may know more.
	Known uint64 `json:"known_commit"`
	// Members are those of the last entry's configuration.
	Members []Member `json:"members"`
	// Others are all but self that are members at Known, or were made so after it: who may
	// have a say, whatever becomes of the entries behind Known.
	Others []Member `json:"-"`

	// Alone says that self is the only member already: there is nothing to do.
	Alone bool `json:"alone"`
	// Remove are the members to be taken out, Term and Commit what the log ends
	// with then.
	Remove []Member `json:"remove"`
	Term   uint64   `json:"term"`
	Commit uint64   `json:"commit"`

	Segment string `json:"segment"`
	// Offset is where the log ends and the edit goes, Append how many bytes it
	// takes.
	Offset int64 `json:"offset"`
	Append int   `json:"append_bytes"`
	// Repair is the write cut short behind the end that the edit takes away.
	Repair *tear `json:"repair,omitempty"`
	// Space is how many bytes the edit and its copy of the tail take.
	Space int64 `json:"space_bytes"`
	// Interrupted says that an earlier edit of this directory did not come to
	// its end.
	Interrupted bool `json:"interrupted,omitempty"`
	// Warnings are what a person should know, and no obstacle.
	Warnings []string `json:"warnings,omitempty"`
	// Copy is the directory with the copy of the tail and the journal.
	Copy string `json:"copy,omitempty"`
	// EditMS is how long the edit took, from the locks to the last sync.
	EditMS float64 `json:"edit_ms,omitempty"`

	append []byte
}

// Options are a person's or an agent's say in an edit.
type Options struct {
	// AcceptDataLoss edits a directory of a cluster with more than two voters.
	// Others may have agreed on writes that never came here.
	AcceptDataLoss bool
}

// found is everything that decide looks at.
type found struct {
	*scanned
	base   snapshotMark
	stored stored
	// ours says that what stands behind the end is an interrupted edit's own.
	ours bool
}

// knownVersions are those whose start after an edit was read in their source and
// tried.
var knownVersions = []string{"3.5", "3.6", "3.7"}

// minor is "3.6" of "3.6.0".
func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return version
	}
	return parts[0] + "." + parts[1]
}

// decide plans the edit. It is pure.
func decide(f found, opts Options) (Plan, error) {
	p, t, err := state(f)
	if err != nil {
		return p, err
	}
	if err := p.votes(t, opts); err != nil {
		return p, err
	}
	if p.Alone {
		return p, nil
	}
	return p, p.compose(f, t)
}

// state says how a directory is, or why it is not one that etcd can be trusted
// to start from.
func state(f found) (Plan, timeline, error) {
	l := &f.log
	p := Plan{
		Version: 1, Etcd: minor(f.stored.version), Cluster: ID(l.cluster), Self: ID(l.member),
		Hard: l.hard, Last: l.last, Known: max(l.hard.Commit, f.stored.consistent),
		Segment: f.tail.name, Offset: f.end, Term: l.hard.Term, Commit: l.hard.Commit,
	}
	if err := known(&p, f); err != nil {
		return p, timeline{}, err
	}
	if err := whole(f, p.Known); err != nil {
		return p, timeline{}, err
	}
	if err := joint(l, f.base); err != nil {
		return p, timeline{}, err
	}
	t, err := follow(l, f.base, f.stored)
	if err != nil {
		return p, t, err
	}
	p.Others = sorted(t.others)
	p.Members, p.Alone = sorted(t.end), len(t.others) == 0 && t.selfVotes
	if len(f.rest) > 0 {
		p.Repair = &tear{Offset: f.end, Bytes: int64(len(f.rest)), Why: f.cut.Error()}
	}
	return p, t, nil
}

// known checks the version. A cluster agrees on one some seconds after its first
// start, and counts as 3.0 before. Until then its log goes back to the first
// entry, from where every known version starts alike.
func known(p *Plan, f found) error {
	if slices.Contains(knownVersions, p.Etcd) {
		return nil
	}
	if young := p.Etcd == "" || p.Etcd == "3.0"; !young {
		return refuse(UnknownVersion, "use a release of holdfast that knows it",
			"the cluster is of etcd %q; known are %s", f.stored.version, strings.Join(knownVersions, ", "))
	}
	if f.base.index > 0 || f.log.from != 1 {
		return refuse(UnknownVersion, "start this member with its cluster until both have agreed on one",
			"the cluster has not agreed on a version of etcd, and its log no longer goes back to the first entry")
	}
	p.Etcd = ""
	return nil
}

// whole checks that no entry is missing that is known to have been committed.
func whole(f found, known uint64) error {
	l := &f.log
	if known > l.last.Index {
		return refuse(Incomplete, remedyDamaged, "the log ends at entry %d, and entry %d is known to be committed", l.last.Index, known)
	}
	if f.ours {
		return nil
	}
	if after := committed(f.rest); after > l.last.Index {
		return refuse(Incomplete, remedyDamaged,
			"%s can be read up to offset %d, entry %d; behind it stands that entry %d was committed, so this is damage and no write cut short",
			f.tail.name, f.end, l.last.Index, after)
	}
	return nil
}

func joint(l *log, base snapshotMark) error {
	const remedy = "let the change of membership come to its end with the other members"
	if c := base.conf; c != nil && (len(c.outgoing) > 0 || len(c.nextLearners) > 0 || c.autoLeave) {
		return refuse(Joint, remedy, "the snapshot at entry %d is of a joint configuration", base.index)
	}
	for _, c := range l.changes {
		if c.Index > base.index && c.typ == changeJoint {
			return refuse(Joint, remedy, "entry %d may begin a joint configuration, which etcd never does", c.Index)
		}
	}
	return nil
}

// votes checks that every write that was ever acknowledged must stand in this
// log: self had to agree to it.
func (p *Plan) votes(t timeline, opts Options) error {
	me, ok := t.atKnow[uint64(p.Self)]
	switch {
	case !ok:
		return refuse(NotVoter, "use the data of a voter", "member %v is not a member of its cluster", p.Self)
	case me.Learner:
		if end, ok := t.end[uint64(p.Self)]; ok && !end.Learner {
			return refuse(NotVoter, "use the data of a voter", "member %v is not known to have been promoted", p.Self)
		}
		return refuse(NotVoter, "use the data of a voter", "member %v is a learner", p.Self)
	case !t.selfVotes:
		return refuse(NotVoter, "use the data of a voter", "the end of the log removes member %v", p.Self)
	}
	if t.voters <= 2 {
		return nil
	}
	if !opts.AcceptDataLoss {
		return refuse(TooManyVoters, "bring a majority back, or accept the loss with --accept-data-loss",
			"the cluster has %d voters, and the others may have acknowledged writes that never came here", t.voters)
	}
	p.Warnings = append(p.Warnings, fmt.Sprintf("%d voters: writes that the others acknowledged without this member are lost", t.voters))
	return nil
}

// compose writes down what is appended: the removals in the next term, and the
// promise that makes them final.
func (p *Plan) compose(f found, t timeline) error {
	p.Remove = sorted(t.others)
	term := max(p.Hard.Term, p.Last.Term)
	if term == math.MaxUint64 || p.Last.Index > math.MaxUint64-uint64(len(p.Remove))-1 {
		return refuse(Damaged, remedyDamaged, "term %d and index %d leave no room for more", term, p.Last.Index)
	}
	p.Term, p.Commit = term+1, p.Last.Index+uint64(len(p.Remove))
	crc := f.crc
	for i, m := range p.Remove {
		entry := marshalRemoval(uint64(m.ID), p.Term, p.Last.Index+1+uint64(i))
		p.append, crc = appendRecord(p.append, kindEntry, entry, crc)
	}
	hard := HardState{Term: p.Term, Vote: uint64(p.Self), Commit: p.Commit}
	p.append, _ = appendRecord(p.append, kindState, hard.marshal(), crc)
	p.Append = len(p.append)
	p.Space = int64(len(p.append)) + min(f.end, keptTail) + int64(len(f.rest)) + journalRoom
	return nil
}

func sorted(m membership) []Member {
	return slices.SortedFunc(maps.Values(m), func(a, b Member) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
}

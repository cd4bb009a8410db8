package pair

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/wal"
)

// View is everything that a decision rests on. Times are on the agent's monotonic
// clock, from its start; 0 means never.
type View struct {
	Now     time.Duration
	Arbiter Arbiter
	Process Process
	Log     Log
	Quorum  Quorum
	Members Members
	// PeerSeen is when the peer's raft listener last answered as that of the peer.
	PeerSeen time.Duration
	// Blind says why this site does not see its clients; empty: it does, or
	// nobody asked.
	Blind string
	// Survivor is what the peer's etcd says, asked only while the record is
	// solo(peer).
	Survivor Survivor
}

// Trouble is what keeps an arbiter from being believed.
type Trouble int

const (
	// Readable: the last read brought a record, or that there is none.
	Readable Trouble = iota
	// Silent: it did not answer, or refused the credentials. What it said last
	// stands.
	Silent
	// Wrong: what it says cannot be right: it has gone back, or has another
	// cluster's record. Nobody may act on it.
	Wrong
)

// Arbiter is what this process knows of the record.
type Arbiter struct {
	// Known says that a read has succeeded since this process began.
	Known bool
	// Record is what the last one brought; generation 0: there is none.
	Record arbiter.Record
	// Asked is when the last read that succeeded was sent.
	Asked   time.Duration
	Trouble Trouble
	// Detail is the error behind Trouble.
	Detail string
	// Untried is why it is not known yet whether its compare-and-swap is one, or
	// empty; Unfit why it may not decide, or empty.
	Untried, Unfit string
}

// Process is the etcd process.
type Process struct {
	Running bool
	// Since is when it was started, or found running; or when it was gone.
	Since time.Duration
}

// Content is what a stopped member's directory holds.
type Content int

const (
	// Unread: not looked at yet; or etcd runs.
	Unread Content = iota
	// Empty: no member's directory.
	Empty
	// Two: self and one other voter, or self as a learner.
	Two
	// Alone: self is the only voter.
	Alone
	// Unfit: a directory that etcd must not be started from, or is not of a pair.
	Unfit
)

// Log is what package wal finds in the directory of a stopped member.
type Log struct {
	Content Content
	Cluster wal.ID
	Self    wal.ID
	Learner bool
	Detail  string // of Unfit
}

// Quorum is what the own etcd proves.
type Quorum struct {
	// Confirmed is when the last linearizable read that succeeded was sent.
	Confirmed time.Duration
	// Led says that the own member was the leader then.
	Led bool
	// Answers is when the own member last answered, its status or at its raft
	// listener; Leader whether it knew a leader by its status.
	Answers time.Duration
	Leader  bool
	// Unasked is why the own etcd, which is there, cannot be asked for a quorum: it
	// refuses our credentials. Then nothing tells that there is none.
	Unasked string
}

// Members is the membership as the own, running etcd knows it.
type Members struct {
	Known   bool
	Cluster wal.ID
	Self    wal.ID
	Voters  int
	// SelfVoter says that the own member is one of them.
	SelfVoter bool
	// Peer is the other voter, if there are two.
	Peer wal.ID
	// Learner is the peer as a learner. Learners of other addresses do not count.
	Learner wal.ID
}

// Survivor is what the peer's etcd answers through a quorum of its own.
type Survivor struct {
	// Answered is when the last request was sent that it answered.
	Answered time.Duration
	Cluster  wal.ID
	// Members are the ids of all it has.
	Members []wal.ID
	// Stale is an entry with this member's peer address, if there is one.
	Stale wal.ID
}

func (s Survivor) lists(id wal.ID) bool {
	for _, m := range s.Members {
		if m == id && id != 0 {
			return true
		}
	}
	return false
}

const (
	// fresh is how old an observation may be that is taken for the present.
	fresh = 1500 * time.Millisecond
	// restEvery is how often the record is read while all is well.
	restEvery = 10 * time.Second
	// hurryEvery is how often while it is not.
	hurryEvery = 700 * time.Millisecond
)

// since is how long ago t was; for ever if it never was.
func (v View) since(t time.Duration) time.Duration {
	if t == 0 {
		return forever
	}
	return v.Now - t
}

// quorate reports whether the cluster takes writes through the own member.
func (v View) quorate() bool {
	return v.Process.Running && v.Quorum.Confirmed >= v.Process.Since && v.since(v.Quorum.Confirmed) < fresh
}

// lost is how long there has been no quorum.
func (v View) lost() time.Duration {
	return v.since(max(v.Quorum.Confirmed, v.Process.Since, 1))
}

// peerReachable reports whether the peer's etcd listens.
func (v View) peerReachable() bool { return v.since(v.PeerSeen) < fresh }

// answers reports whether the own etcd is well enough to be asked.
func (v View) answers() bool { return v.since(v.Quorum.Answers) < fresh }

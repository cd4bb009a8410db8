package leader

import (
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/topology"
)

// MemberID is etcd's id of a member. Its text form is hexadecimal, as etcd
// prints it; 0 is no member.
type MemberID uint64

func (m MemberID) String() string { return strconv.FormatUint(uint64(m), 16) }

// MarshalText writes the hexadecimal form.
func (m MemberID) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads the hexadecimal form.
func (m *MemberID) UnmarshalText(text []byte) error {
	id, err := ParseMemberID(string(text))
	*m = id
	return err
}

// ParseMemberID reads a member id from its hexadecimal form.
func ParseMemberID(s string) (MemberID, error) {
	id, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("parse member id %q: want up to 16 hexadecimal digits", s)
	}
	return MemberID(id), nil
}

// LinkState is what one end knows about a link.
type LinkState = topology.State

const (
	Unknown = topology.Unknown
	Up      = topology.Up
	Down    = topology.Down
)

// Link is a member's view of its link to another.
type Link = topology.Link

// Row is what one agent reports about its own member and that member's links.
type Row struct {
	Member  MemberID
	Cluster uint64
	Name    string
	Zone    string
	// Boot names the run of the reporting agent; Seq counts its rows. Together
	// they order the copies of a row that arrive by several routes.
	Boot string
	Seq  uint64
	// Age is how long ago the reader first saw (Boot, Seq), by the reader's
	// monotonic clock. No wall clock is ever compared with another machine's.
	Age time.Duration
	// Reachable says that the member answered its own agent's Status call.
	// The fields from Leader to Fsync mean nothing without it.
	Reachable bool
	// Leader is who the member's raft follows; 0 when it has no leader.
	Leader MemberID
	// LeaderlessFor is how long Leader has been 0, with the row's age added.
	LeaderlessFor time.Duration
	// Term, Applied and Index are raft's; Index is the committed index the
	// member knows of.
	Term, Applied, Index uint64
	Learner              bool
	// Alarms are those raised for this member (NOSPACE, CORRUPT).
	Alarms  []string
	Version string
	// Fsync is the 99th percentile of recent WAL fsyncs; 0 is unknown.
	Fsync time.Duration
	// Links holds the member's view of every other, ages added by the reader.
	Links map[MemberID]Link
	// Penalty is the newest penalty record the agent knows.
	Penalty Penalty
}

// Voter is a voting member of the cluster as the own member lists it.
type Voter struct {
	ID   MemberID
	Name string
}

// Snapshot is the world as one agent sees it at one moment.
type Snapshot struct {
	// Now is monotonic time since the agent started.
	Now  time.Duration
	Self MemberID
	// Own is the row of the agent's own member, always of this moment.
	Own Row
	// Rows holds the newest row of every other member, by whatever route.
	Rows   map[MemberID]Row
	Voters []Voter
	// VotersChanged is the time since the list of members last changed; large
	// when it was never seen to change.
	VotersChanged time.Duration
	// Penalty is the newest record read from the store; the zero value when
	// there is none.
	Penalty Penalty
	// PenaltyKnown says that the record was read from a quorum (a linearizable
	// read, or the rows of a majority) since the own member last became
	// leader. Nothing moves without it: a record written by the former leader
	// must not be missed.
	PenaltyKnown bool
	// Unrecorded says that the store takes no records (a NOSPACE alarm is on):
	// the mover's record then needs the acknowledgement of the target's agent
	// instead. An agent that starts in such a time cannot know of records that
	// were never stored, and counts its start as a move.
	Unrecorded bool
	// SlowFor is how long readings in a row have said that the own disk is slower
	// than MaxFsync, from the first of them to the last; 0 when the last did not.
	SlowFor time.Duration
	// QuietFor is how long the own member has had few proposals pending.
	QuietFor time.Duration
}

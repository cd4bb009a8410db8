package wal

import "fmt"

// Reason says why a directory is not edited. Programs branch on it; its text is
// stable.
type Reason string

const (
	// Running: another process holds etcd's locks.
	Running Reason = "etcd-running"
	// Damaged: bytes that etcd once wrote are not what they were.
	Damaged Reason = "damaged"
	// Incomplete: entries are missing that are known to have been committed.
	Incomplete Reason = "incomplete"
	// NotVoter: the member of this directory is a learner, was removed, or is
	// not known to have been promoted.
	NotVoter Reason = "not-a-voter"
	// TooManyVoters: others may have agreed on writes that never came here.
	TooManyVoters Reason = "too-many-voters"
	// Joint: the membership is in the middle of a joint change.
	Joint Reason = "joint-configuration"
	// Disagree: the database and the log name different members.
	Disagree Reason = "membership-disagrees"
	// UnknownVersion: written by a version of etcd whose start after the edit
	// is not known.
	UnknownVersion Reason = "unknown-version"
	// NoSpace: the copy and the edit would not fit.
	NoSpace Reason = "no-space"
	// NotOwner: this process may not act as the owner of the files.
	NotOwner Reason = "not-the-owner"
	// NotThere: no member's directory.
	NotThere Reason = "not-a-member-directory"
)

// Refusal is the error of a directory that is left alone. It is found with
// errors.As.
type Refusal struct {
	Reason Reason
	// Detail says what was found, Remedy what a person can do.
	Detail, Remedy string
}

func (r *Refusal) Error() string {
	if r.Remedy == "" {
		return fmt.Sprintf("%s: %s", r.Reason, r.Detail)
	}
	return fmt.Sprintf("%s: %s; %s", r.Reason, r.Detail, r.Remedy)
}

func refuse(why Reason, remedy, format string, args ...any) *Refusal {
	return &Refusal{Reason: why, Detail: fmt.Sprintf(format, args...), Remedy: remedy}
}

// remedyDamaged is the way out of every damaged directory.
const remedyDamaged = "use the other member's data, or restore a snapshot"

package health

import (
	"fmt"
	"time"
)

// Event is something that a Judge is told: Answered, Progress, Lost, Evidence
// or Nudge.
type Event interface {
	apply(j *Judge, now time.Duration)
}

// Answered is the end of a probe that the Judge asked for.
type Answered struct {
	Probe  uint64
	Result Result
}

// Progress is a sign of life during a probe.
type Progress struct {
	Probe uint64
	Stage Stage
}

// Lost says that the kept connection has ended without an announcement.
type Lost struct{}

// Nudge asks for a probe on a new connection now.
type Nudge struct{}

// Stage is how far a probe has come.
type Stage uint8

const (
	// Dialling: the probe needs a new connection, asked for or not.
	Dialling Stage = iota + 1
	// Connected: the peer's kernel has accepted; its process need not run.
	Connected
	// Spoke: the peer's process has said something.
	Spoke
)

// Evidence is what client traffic says against a server.
type Evidence uint8

// Kinds of Evidence. Each makes a server suspect and asks for a probe.
const (
	// DialRefused: connection refused. It also counts as one failed probe.
	DialRefused Evidence = iota
	// DialTimeout: a connection did not come about in time.
	DialTimeout
	// ResetEarly: a connection was reset before its first byte.
	ResetEarly
	// Silent: the first byte of a connection is overdue.
	Silent
	// Unacked: the server's kernel does not acknowledge data.
	Unacked

	kindsOfEvidence = iota
)

var evidenceNames = []string{"a client's connection was refused", "a client's connection timed out",
	"a client's connection was reset at its start", "a client waits for a first byte", "a client's data is not acknowledged"}

// String returns words for people.
func (e Evidence) String() string {
	if int(e) >= len(evidenceNames) {
		return fmt.Sprintf("evidence %d", uint8(e))
	}
	return evidenceNames[e]
}

// Action is something that a Judge asks for.
type Action struct {
	Kind ActionKind
	// Probe identifies the probe in Answered and Progress; never 0.
	Probe uint64
	// Fresh asks for a new connection.
	Fresh bool
}

// ActionKind says what to do with a probe.
type ActionKind uint8

const (
	// Start begins a probe.
	Start ActionKind = iota
	// Cancel ends one whose answer no longer matters.
	Cancel
)

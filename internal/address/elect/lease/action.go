package lease

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease/ask"
)

// Do is what an Action wants done.
type Do uint8

const (
	// Read the record, from a quorum, and report to Called.
	Read Do = 1 + iota
	// Write Record in the place of Version (0: create it), and report to Called.
	Write
	// Send Message to Peer.
	Send
	// Hold the address until Until, and not an instant longer; sent again with each
	// extension. Until may move back when Lingering.
	Hold
	// Let go of the address at once.
	Release
	// Refused: nobody could be found to give the address to, and it stays.
	Refused
	// Stopped: nothing more will happen.
	Stopped
)

// Action is one thing to do.
type Action struct {
	Do Do
	// ID of a call, for Called.
	ID uint64
	// Timeout bounds a call.
	Timeout time.Duration
	Record  Record
	Version uint64
	Peer    Peer
	Message ask.Message
	Until   time.Duration
	// Lingering: the address was given away, and is answered for until the
	// successor is heard.
	Lingering bool
	// Cause of Hold, when it begins, and of Release.
	Cause Cause
}

// Cause is why the address came or went, in words for logs and metrics.
type Cause string

const (
	// CauseExpired: the holder before did not renew in time.
	CauseExpired Cause = "expired"
	// CauseFree: the holder before let go without naming a successor.
	CauseFree Cause = "free"
	// CauseGiven: the holder before named this peer.
	CauseGiven Cause = "given"
	// CauseYielded: the holder before, without the API, told this peer so.
	CauseYielded Cause = "yielded"
	// CauseFound: an own write was done whose answer came late.
	CauseFound Cause = "found"

	// CauseDeadline: the lease ran out, and the API was not reached.
	CauseDeadline Cause = "deadline"
	// CauseReached: as above, while a peer said that it reaches the API.
	CauseReached Cause = "reached elsewhere"
	// CauseUnheard: as above, while a peer that the record names did not answer.
	CauseUnheard Cause = "peer unheard"
	// CauseFrozen: this process or its machine stood still until after the deadline.
	CauseFrozen Cause = "stood still"
	// CauseSuperseded: the record names another.
	CauseSuperseded Cause = "superseded"
	// CauseHandedOver: given away, and the successor was heard.
	CauseHandedOver Cause = "handed over"
	// CauseLingered: given away, and the successor was not heard in time.
	CauseLingered Cause = "successor not heard"
	// CauseStopped: it was told to stop and there was nobody to give it to.
	CauseStopped Cause = "stopped"
)

package vrrp

import (
	"net/netip"
	"time"
)

// State of a virtual router on this machine (RFC 9568 section 6.3), and one
// more of our own.
type State int

const (
	// Initialize: not started, stopped, or at fault.
	Initialize State = iota
	// Backup: listens, and answers nothing for the addresses.
	Backup
	// Active: holds the addresses, advertises and announces them.
	Active
	// Yielding: has resigned, and goes on answering until the successor is
	// heard or Config.Linger has passed. It neither advertises nor announces:
	// its adverts have priority 0.
	Yielding
)

func (s State) String() string { return [...]string{"initialize", "backup", "active", "yielding"}[s] }

// Holds says whether the machine answers for the addresses.
func (s State) Holds() bool { return s == Active || s == Yielding }

// Cause says why something happened: a short constant word for logs and for
// the label of a metric.
type Cause string

const (
	CauseStart      Cause = "start"
	CauseStop       Cause = "stop"
	CauseRelease    Cause = "release"
	CauseFault      Cause = "fault"
	CauseRecovered  Cause = "recovered"   // the fault is over
	CauseOwner      Cause = "owner"       // the addresses are our own
	CauseSilence    Cause = "silence"     // the holder was not heard any more
	CauseResigned   Cause = "resigned"    // the holder has said that it goes
	CausePreempt    Cause = "preempt"     // the holder has a lower priority
	CauseRelieve    Cause = "relieve"     // the holder's priority fell below ours
	CauseSuperior   Cause = "superior"    // a better router is active as well
	CauseInferior   Cause = "inferior"    // a worse router is, or was, active as well
	CauseHandedOver Cause = "handed-over" // the successor has been heard
	CauseLinger     Cause = "linger"      // no successor was heard in time
	CauseUnclaimed  Cause = "unclaimed"   // released, and nobody took it
	CauseLapsed     Cause = "lapsed"      // we did not run for three adverts
	CauseGroup      Cause = "group"       // another member of the group moved
)

// Action is something for the shell to do: Send, Become, Announce or Note, in
// the order given. A new holder's Become comes before its Send, so that it
// answers by the time the old holder hears of it and stops.
type Action interface{ action() }

// Send is an advert to send now (see Machine.Advert), or never: one that a
// frozen shell sends seconds later unseats whoever took over meanwhile. While
// State().Holds(), each renews the dead-man.
type Send struct{ Priority uint8 }

// Become is a change of state.
type Become struct {
	State State
	Cause Cause
}

// Announce asks for gratuitous ARP or unsolicited neighbour advertisements,
// again if need be.
type Announce struct{ Cause Cause }

// Note is worth a count, and a line when it is the first of its kind.
type Note struct {
	Kind NoteKind
	// From is the sender of the advert in question, if it is about one.
	From netip.Addr
	// Late is how late we were, with NoteLate and NoteLapsed.
	Late time.Duration
}

// NoteKind is a short constant word for the label of a metric.
type NoteKind string

const (
	// Adverts that are not heeded.
	NoteVRID     NoteKind = "vrid"     // of another virtual router
	NoteVersion  NoteKind = "version"  // of the version that is not configured
	NoteFamily   NoteKind = "family"   // from an address of the other family
	NoteEcho     NoteKind = "echo"     // from our own address
	NoteStranger NoteKind = "stranger" // our VRID, none of our addresses: a clash
	NoteResigner NoteKind = "resigner" // resigns, but is not the holder, or was not just now
	// Adverts that are heeded all the same.
	NoteAddresses NoteKind = "addresses" // the lists of addresses differ
	NoteInterval  NoteKind = "interval"  // the intervals differ
	NoteInferior  NoteKind = "inferior"  // of a worse router while we are active
	NoteSuperior  NoteKind = "superior"  // of a better one while we are active
	NoteOwner     NoteKind = "owner"     // of a second owner
	// About ourselves.
	NoteLate   NoteKind = "late"   // we did not run for an interval; we listen anew
	NoteLapsed NoteKind = "lapsed" // we did not run for so long that we hold nothing
)

func (Send) action()     {}
func (Become) action()   {}
func (Announce) action() {}
func (Note) action()     {}

package bfd

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

const (
	// Port is where control packets of single-hop sessions go, RFC 5881
	// section 4.
	Port = 3784
	// TTL is what every packet leaves with and has to arrive with, RFC 5881
	// section 5 and RFC 5082: one hop farther it would be 254.
	TTL = 255

	version = 1
	// size is the mandatory section, RFC 5880 section 4.1. Only
	// authentication makes a packet longer.
	size = 24
)

// State is the state of one end of a session, RFC 5880 section 4.1.
type State uint8

// The states, with their values on the wire.
const (
	AdminDown State = 0
	Down      State = 1
	Init      State = 2
	Up        State = 3
)

func (s State) String() string {
	switch s {
	case AdminDown:
		return "AdminDown"
	case Down:
		return "Down"
	case Init:
		return "Init"
	case Up:
		return "Up"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Diag says why a system last left Up, RFC 5880 section 4.1.
type Diag uint8

// The diagnostic codes, with their values on the wire.
const (
	DiagNone             Diag = 0
	DiagDetectionExpired Diag = 1
	DiagEchoFailed       Diag = 2
	DiagNeighborDown     Diag = 3
	DiagForwardingReset  Diag = 4
	DiagPathDown         Diag = 5
	DiagConcatenatedDown Diag = 6
	DiagAdminDown        Diag = 7
	DiagReverseDown      Diag = 8
)

var diagNames = [...]string{
	DiagNone:             "no diagnostic",
	DiagDetectionExpired: "detection time expired",
	DiagEchoFailed:       "echo function failed",
	DiagNeighborDown:     "neighbor signaled session down",
	DiagForwardingReset:  "forwarding plane reset",
	DiagPathDown:         "path down",
	DiagConcatenatedDown: "concatenated path down",
	DiagAdminDown:        "administratively down",
	DiagReverseDown:      "reverse concatenated path down",
}

func (d Diag) String() string {
	if int(d) < len(diagNames) {
		return diagNames[d]
	}
	return fmt.Sprintf("diagnostic %d", uint8(d))
}

// Packet is a control packet without authentication, RFC 5880 section 4.1. The
// intervals have whole microseconds on the wire.
type Packet struct {
	Diag  Diag  // five bits
	State State // two bits
	// Poll asks for an answer with Final. A sender must not set both; RFC 5880
	// does not have the receiver mind.
	Poll, Final bool
	// ControlIndependent says that forwarding survives the control plane.
	ControlIndependent bool
	// Demand asks the receiver to stop sending once both ends are Up.
	Demand     bool
	DetectMult uint8
	// MyDiscr is never 0. YourDiscr is 0 until the sender has heard the
	// receiver.
	MyDiscr, YourDiscr uint32
	// DesiredMinTx is the shortest interval at which the sender wishes to
	// send.
	DesiredMinTx time.Duration
	// RequiredMinRx is the shortest interval at which the sender can receive;
	// 0 asks for no periodic packets at all.
	RequiredMinRx time.Duration
	// RequiredMinEchoRx is 0 where the sender does not return Echo packets.
	RequiredMinEchoRx time.Duration
}

// Append writes p behind b. An interval that the wire cannot carry becomes the
// nearest that is not shorter, or the longest there is.
func (p *Packet) Append(b []byte) []byte {
	b = append(b, version<<5|byte(p.Diag)&0x1f, byte(p.State)<<6|p.flags(), p.DetectMult, size)
	b = binary.BigEndian.AppendUint32(b, p.MyDiscr)
	b = binary.BigEndian.AppendUint32(b, p.YourDiscr)
	b = binary.BigEndian.AppendUint32(b, micros(p.DesiredMinTx))
	b = binary.BigEndian.AppendUint32(b, micros(p.RequiredMinRx))
	return binary.BigEndian.AppendUint32(b, micros(p.RequiredMinEchoRx))
}

// The low six bits of the second byte.
const (
	flagPoll = 1 << (5 - iota)
	flagFinal
	flagControlIndependent
	flagAuthentication
	flagDemand
	flagMultipoint
)

func (p *Packet) flags() byte {
	var b byte
	for _, f := range []struct {
		set bool
		bit byte
	}{{p.Poll, flagPoll}, {p.Final, flagFinal}, {p.ControlIndependent, flagControlIndependent}, {p.Demand, flagDemand}} {
		if f.set {
			b |= f.bit
		}
	}
	return b
}

// longest is the longest interval that the wire carries, 71 min 35 s.
const longest = math.MaxUint32 * time.Microsecond

func micros(d time.Duration) uint32 {
	d = min(max(d, 0), longest)
	return uint32((d + time.Microsecond - 1) / time.Microsecond)
}

// Reason is why a packet was not taken; it labels a counter.
type Reason string

// The reasons that Parse finds in the packet itself, in the order of RFC 5880
// section 6.8.6.
const (
	ReasonVersion        Reason = "version"
	ReasonLength         Reason = "length"
	ReasonDetectMult     Reason = "detect-mult"
	ReasonMultipoint     Reason = "multipoint"
	ReasonDiscriminator  Reason = "discriminator"
	ReasonState          Reason = "state"
	ReasonAuthentication Reason = "authentication"
)

// The reasons that lie in how a packet arrived, or for whom.
const (
	ReasonTTL     Reason = "ttl"
	ReasonSession Reason = "session"
	ReasonSource  Reason = "source"
)

// Reasons are all reasons, so that a counter can show those that are still 0.
var Reasons = [...]Reason{
	ReasonVersion, ReasonLength, ReasonDetectMult, ReasonMultipoint, ReasonDiscriminator, ReasonState,
	ReasonAuthentication, ReasonTTL, ReasonSession, ReasonSource,
}

// MalformedError is a packet that RFC 5880 section 6.8.6 has discarded.
type MalformedError struct {
	Reason Reason
	Detail string
}

func (e *MalformedError) Error() string { return "parse BFD packet: " + e.Detail }

func malformed(r Reason, format string, args ...any) error {
	return &MalformedError{Reason: r, Detail: fmt.Sprintf(format, args...)}
}

// Parse reads the packet at the start of b, the payload of a datagram. An error
// is a *MalformedError.
func Parse(b []byte) (Packet, error) {
	if err := check(b); err != nil {
		return Packet{}, err
	}
	word := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	interval := func(at int) time.Duration { return time.Duration(word(at)) * time.Microsecond }
	p := Packet{
		Diag:               Diag(b[0] & 0x1f),
		State:              State(b[1] >> 6),
		Poll:               b[1]&flagPoll != 0,
		Final:              b[1]&flagFinal != 0,
		ControlIndependent: b[1]&flagControlIndependent != 0,
		Demand:             b[1]&flagDemand != 0,
		DetectMult:         b[2],
		MyDiscr:            word(4),
		YourDiscr:          word(8),
		DesiredMinTx:       interval(12),
		RequiredMinRx:      interval(16),
		RequiredMinEchoRx:  interval(20),
	}
	return p, p.check()
}

// check is the part of RFC 5880 section 6.8.6 that needs the bytes.
func check(b []byte) error {
	switch {
	case len(b) < size:
		return malformed(ReasonLength, "%d bytes, at least %d expected", len(b), size)
	case b[0]>>5 != version:
		return malformed(ReasonVersion, "version %d, only %d is known", b[0]>>5, version)
	case b[3] < size || int(b[3]) > len(b):
		return malformed(ReasonLength, "length field says %d in a payload of %d bytes", b[3], len(b))
	case b[1]&flagMultipoint != 0:
		return malformed(ReasonMultipoint, "multipoint bit is set")
	case b[1]&flagAuthentication != 0:
		return malformed(ReasonAuthentication, "packet is authenticated, but no authentication is configured; switch it off at the peer")
	}
	return nil
}

// check is the part of RFC 5880 section 6.8.6 that needs the fields alone.
func (p *Packet) check() error {
	switch {
	case p.DetectMult == 0:
		return malformed(ReasonDetectMult, "detection multiplier 0")
	case p.MyDiscr == 0:
		return malformed(ReasonDiscriminator, "sender's discriminator 0")
	case p.YourDiscr == 0 && p.State != Down && p.State != AdminDown:
		return malformed(ReasonState, "state %v without the receiver's discriminator", p.State)
	}
	return nil
}

package relay

import "time"

// EventKind says what the data path saw.
type EventKind int

// The kinds of events. Those marked as evidence speak for or against a target;
// faults of the client's side never appear among them.
const (
	// Connected: a target accepted; RTT is the time of the handshake. Evidence.
	Connected EventKind = iota + 1
	// DialFailed: a target refused, or could not be reached. Evidence.
	DialFailed
	// ResetEarly: a target closed or reset a connection before its first
	// byte, though its client was still there. Evidence.
	ResetEarly
	// Silent: a target said nothing for FirstByte after a whole ClientHello
	// was written to it. Evidence.
	Silent
	// Spoke: a target that had been Silent said its first byte after all;
	// RTT is the time since it was connected. Evidence.
	Spoke
	// Unacked: the target's kernel does not acknowledge data; Count is the
	// number of such connections in a sample. Evidence.
	Unacked
	// Closed: an established connection ended; Err is the error of the
	// target's side, nil when it ended in order or by its client.
	Closed
	// Refused: a client was reset because no target could be tried.
	Refused
	// BudgetSpent: a client was reset because no target accepted within Budget.
	BudgetSpent
	// QueueTimeout: a client waited QueueTimeout for a target below its limit.
	QueueTimeout
	// QueueFull: a client found QueueLength others waiting.
	QueueFull
	// AcceptLimited: accepting stopped for a while: MaxConns or the limit of
	// descriptors is reached; Err is set for the latter.
	AcceptLimited
	// ClientLimited: a client was reset by MaxPerClient.
	ClientLimited
	// BadProxy: a client sent no valid PROXY header, or may not send one.
	BadProxy
	// SlowHello: a client had not said enough within HelloTimeout.
	SlowHello
	// Idle: a connection was reset by IdleTimeout.
	Idle
	// Aged: a connection was reset by MaxAge.
	Aged
	// Purged: a connection was reset by Engine.Reset or Engine.Rebalance.
	Purged
	// Overtaken: an attempt was given up after Stagger or more without an
	// answer, because another was accepted; RTT is how long it had waited.
	// Evidence.
	Overtaken
	// LocalFault: this machine could not make a connection (descriptors,
	// ports, memory, SourceAddress); it says nothing about the target.
	LocalFault
)

var eventNames = [...]string{
	Connected: "connected", DialFailed: "dial failed", ResetEarly: "reset early", Silent: "silent",
	Spoke: "spoke", Unacked: "unacked", Closed: "closed", Refused: "refused", BudgetSpent: "budget spent",
	QueueTimeout: "queue timeout", QueueFull: "queue full", AcceptLimited: "accept limited",
	ClientLimited: "client limited", BadProxy: "bad proxy header", SlowHello: "slow hello", Idle: "idle",
	Aged: "aged", Purged: "purged", Overtaken: "overtaken", LocalFault: "local fault",
}

// String names the kind in lower case, fit for a log line or a metric label.
func (k EventKind) String() string {
	if k <= 0 || int(k) >= len(eventNames) {
		return "unknown"
	}
	return eventNames[k]
}

// Event is one thing the data path saw. Which fields are set depends on Kind.
type Event struct {
	Kind EventKind
	// Target is nil for what concerns a client only.
	Target *Target
	// Frontend is the name of the frontend that the client came in by.
	Frontend string
	// Err is the cause, when one is known.
	Err error
	// RTT is a duration of the kind that Kind names.
	RTT time.Duration
	// Count is how often it was seen; 0 means once.
	Count int
	// Cause is what the caller of Reset said.
	Cause string
}

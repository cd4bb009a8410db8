package health

import (
	"fmt"
	"slices"
	"time"
)

// Grade orders what a server can do for a client, worst first.
type Grade int8

// The grades. A Result of grade Unknown means that the check could not be made.
const (
	// Unknown: not checked yet.
	Unknown Grade = iota
	// Unreachable: no TCP connection came about, and nobody said no.
	Unreachable
	// Refused: the host answers and nobody there serves: connection refused,
	// or reset before an answer.
	Refused
	// Frozen: accepts connections and does not answer.
	Frozen
	// NotReady: answers that it cannot serve, or not what was asked for.
	NotReady
	// ShuttingDown: serves what it has and wants no more.
	ShuttingDown
	// Alive: answers, but not whether it is ready (401, 403).
	Alive
	// Ready: says that it is.
	Ready
)

var gradeNames = []string{"unknown", "unreachable", "refused", "frozen", "not ready", "shutting down", "alive", "ready"}

// String returns the words for people and for JSON.
func (g Grade) String() string {
	if g < 0 || int(g) >= len(gradeNames) {
		return fmt.Sprintf("grade %d", int8(g))
	}
	return gradeNames[g]
}

// MarshalText implements encoding.TextMarshaler.
func (g Grade) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (g *Grade) UnmarshalText(text []byte) error {
	i := slices.Index(gradeNames, string(text))
	if i < 0 {
		return fmt.Errorf("grade %q: not one of %q", text, gradeNames)
	}
	*g = Grade(i)
	return nil
}

// Usable says that new connections may go there: Alive or Ready.
func (g Grade) Usable() bool { return g >= Alive }

// Result is what one probe found.
type Result struct {
	// Grade is Unknown if the probe could not be made for local reasons.
	Grade Grade
	// Reason is one line for people; empty when there is nothing to say.
	Reason string
	// RTT is the time of the TCP handshake when Fresh, else from the request
	// to the first byte of the answer; 0 when it did not come to that.
	RTT time.Duration
	// Fresh says that the probe used a new connection, asked for or not.
	Fresh bool
	// NewOnly says of a Fresh probe that it left no connection to be asked
	// again: TCP or TLS failed (whom a server proves to be is verified on new
	// connections), or the answer was no HTTP or the connection's last. An
	// older connection that is still kept cannot refute what it found.
	NewOnly bool
	// CredentialsRefused says that the server did not accept who we are.
	CredentialsRefused bool
}

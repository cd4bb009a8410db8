package bgp

import (
	"fmt"
	"math/rand/v2"
	"time"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// Kind is what ended a session or keeps it from coming up; the label of metrics.
type Kind string

// Kinds of causes.
const (
	Stopped   Kind = "stopped"   // on purpose, here
	PathDown  Kind = "bfd"       // BFD no longer hears the peer
	Silent    Kind = "hold"      // nothing was heard for the hold time
	Closed    Kind = "closed"    // the peer or the network closed the connection
	Shutdown  Kind = "shutdown"  // the peer was shut down, or the neighbor removed
	Reset     Kind = "reset"     // the peer asks to come again
	WrongAS   Kind = "as"        // the peer's number is not the one of the settings
	RefusedAS Kind = "own-as"    // the peer refuses ours
	SameID    Kind = "router-id" // both have one identifier
	NoFamily  Kind = "family"    // no address family in common
	Refused   Kind = "refused"   // another notification
	Malformed Kind = "malformed" // what the peer sent cannot be read
	NoOpen    Kind = "no-open"   // the connection ended before the peer's OPEN
	Mute      Kind = "mute"      // the peer takes connections and says nothing
	NoAnswer  Kind = "no-answer" // no answer to TCP at all
	NoPort    Kind = "no-port"   // the port is closed
	NoRoute   Kind = "no-route"  // the network says that the peer is not there
	NoLocal   Kind = "no-local"  // the own address or interface is missing
	NoNextHop Kind = "next-hop"  // a route has no next hop for this peer
	Other     Kind = "other"
)

// Kinds lists all of them, for metrics.
var Kinds = []Kind{
	Stopped, PathDown, Silent, Closed, Shutdown, Reset, WrongAS, RefusedAS, SameID, NoFamily,
	Refused, Malformed, NoOpen, Mute, NoAnswer, NoPort, NoRoute, NoLocal, NoNextHop, Other,
}

// Cause is why there is no session.
type Cause struct {
	Kind    Kind
	Text    string // of the peer or the kernel
	AS      uint32 // the peer's, with WrongAS
	Seconds int    // with Silent
	// Password says that one is in force, Alive that BFD hears the peer.
	Password, Alive bool
}

// trouble says whether a person may have to do something.
func (c Cause) trouble() bool { return c.Kind != "" && c.Kind != Stopped }

// refusal says whether a new try meets the same end until somebody acts.
func (c Cause) refusal() bool {
	switch c.Kind {
	case Shutdown, WrongAS, RefusedAS, SameID, NoFamily, Refused, Malformed, NoOpen, Mute:
		return true
	}
	return false
}

// bfdDown is a subcode of Cease, RFC 9384 section 3, that the library does not name.
const bfdDown = 10

// told is the peer's notification in our words.
func told(n *packet.BGPNotification, p *peerConfig) Cause {
	c := Cause{Kind: Refused, Text: packet.NewNotificationErrorCode(n.ErrorCode, n.ErrorSubcode).String()}
	switch n.ErrorCode {
	case packet.BGP_ERROR_OPEN_MESSAGE_ERROR:
		switch n.ErrorSubcode {
		case packet.BGP_ERROR_SUB_BAD_PEER_AS:
			c.Kind, c.AS = RefusedAS, p.ours
		case packet.BGP_ERROR_SUB_BAD_BGP_IDENTIFIER:
			c.Kind = SameID
		}
	case packet.BGP_ERROR_HOLD_TIMER_EXPIRED:
		c.Kind = Reset
	case packet.BGP_ERROR_CEASE:
		switch n.ErrorSubcode {
		case packet.BGP_ERROR_SUB_ADMINISTRATIVE_SHUTDOWN, packet.BGP_ERROR_SUB_PEER_DECONFIGURED:
			c.Kind = Shutdown
			c.Text += reason(n.Data)
		case bfdDown:
			c.Kind, c.Text = Reset, "its BFD says down (RFC 9384)"
		case packet.BGP_ERROR_SUB_MAXIMUM_NUMBER_OF_PREFIXES_REACHED, packet.BGP_ERROR_SUB_OUT_OF_RESOURCES:
		default:
			c.Kind = Reset
		}
	}
	return c
}

// reason is the text of RFC 9003, if there is one.
func reason(data []byte) string {
	if len(data) < 2 || int(data[0]) > len(data)-1 || data[0] == 0 {
		return ""
	}
	return fmt.Sprintf(" %q", data[1:1+data[0]])
}

// String is the cause in a few words, with the remedy where there is one.
func (c Cause) String() string {
	switch c.Kind {
	case "":
		return ""
	case Stopped:
		return "stopped on purpose"
	case PathDown:
		return "BFD no longer hears the peer"
	case Silent:
		return fmt.Sprintf("nothing was heard of the peer for the hold time of %d s", c.Seconds)
	case Closed:
		return "the connection was closed: " + c.Text
	case Shutdown:
		return "the peer was shut down or has removed this neighbor: " + c.Text
	case Reset:
		return "the peer starts the session anew: " + c.Text
	case WrongAS:
		return fmt.Sprintf("the peer is of AS %d; correct as of the peer in the settings, or the router's", c.AS)
	case RefusedAS:
		return fmt.Sprintf("the peer refuses AS %d (%s); let as and the router's remote-as agree", c.AS, c.Text)
	case SameID:
		return "the peer has the same router identifier; set routerID to an address of this machine (" + c.Text + ")"
	case NoFamily:
		return "the peer wants no address family of these settings; set families, or activate one on the router"
	}
	return c.unreached()
}

// unreached is String where no session came up.
func (c Cause) unreached() string {
	switch c.Kind {
	case Refused:
		return "the peer refuses: " + c.Text
	case Malformed:
		return "what the peer sent cannot be read: " + c.Text
	case NoOpen:
		return "the peer took the connection and closed it again; configure this machine's address as a neighbor there, or end its shutdown"
	case Mute:
		return "the peer took the connection and says nothing; see whether its bgpd is well"
	case NoAnswer:
		return "the peer does not answer on its port" + c.suspicion()
	case NoPort:
		return "nothing listens on the peer's port; start its bgpd, or correct address and port"
	case NoRoute:
		return "the peer cannot be reached: " + c.Text
	case NoLocal:
		return "the address or interface that connections are to come from is missing: " + c.Text
	}
	return c.Text
}

// suspicion is what most likely keeps TCP silent. The kernel drops segments with
// a wrong signature, or with one too many or too few, without an answer.
func (c Cause) suspicion() string {
	switch {
	case c.Alive && c.Password:
		return ", but BFD hears it; the password is not the router's, or port 179 is filtered"
	case c.Alive:
		return ", but BFD hears it; the router wants a password (passwordFile), or port 179 is filtered"
	case c.Password:
		return "; it is away, or the password is not the router's"
	}
	return "; it is away, filtered, or wants a password (passwordFile)"
}

// backoff paces tries. A blip costs a tenth of a second, a peer that is away is
// tried every second, and one that refuses is not pestered.
type backoff struct{ failed, refused, short int }

// How long is waited. The jitter takes up to a quarter off, RFC 4271 section 10.
const (
	firstWait   = 100 * time.Millisecond
	awayWait    = 250 * time.Millisecond
	awayMost    = time.Second
	refusedWait = time.Second
	refusedMost = 30 * time.Second
	// A session that did not last for so long counts as a failed try, so that
	// one that comes and goes is not announced ten times a second.
	lasting   = 10 * time.Second
	shortMost = 8 * time.Second
)

// wait is the time to the next try, after one that failed for c, or after a
// session that has lived.
func (b *backoff) wait(c Cause, lived time.Duration, random *rand.Rand) time.Duration {
	if lived >= lasting {
		b.short, b.refused = 0, 0
	}
	var w time.Duration
	switch {
	case c.refusal():
		w = grown(refusedWait, refusedMost, b.refused)
		b.refused++
	case lived > 0:
		w = grown(firstWait, shortMost, b.short)
		b.short++
	default:
		b.refused = 0
		w = grown(awayWait, awayMost, b.failed)
		b.failed++
	}
	return time.Duration(float64(w) * (0.75 + 0.25*random.Float64()))
}

// up is called when a session has come up.
func (b *backoff) up() { b.failed = 0 }

func grown(first, most time.Duration, times int) time.Duration {
	for range times {
		if first *= 2; first >= most {
			return most
		}
	}
	return first
}

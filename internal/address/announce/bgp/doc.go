// Package bgp announces addresses to routers by BGP (RFC 4271), and nothing
// else: it takes no routes.
//
// # Guarantees
//
// In a partition: a router that BFD no longer hears is given up at once, and so
// this machine by the router; without BFD after the hold time. A blip costs a
// tenth of a second and what the handshake takes: there is no idle hold of 30 s
// after it. BFD that was never up, or was put away on purpose (AdminDown),
// changes nothing, RFC 5882 section 4.2. As soon as BFD hears the router again it
// is dialed, without waiting for a try that was made in vain.
//
// After a crash: routers find the connection reset or the peer silent and take
// the routes away. No graceful restart is offered, which would have them send
// packets to a machine that is gone. The next run starts with nothing and
// announces what it is told to.
//
// At a deliberate end: routes are withdrawn, or announced with the community
// GRACEFUL_SHUTDOWN (RFC 8326), before the sessions end, so that routers go
// elsewhere while packets still find an answer here.
//
// Under refusal: a router that refuses (AS, shutdown, no neighbor) is tried again
// after a second, then twice that, up to 30 s; one that is away every second; a
// session that does not last is not announced again and again without a growing
// pause. Each cause is logged once, with what a person can do.
//
// With a wrong clock: all times are monotonic.
//
// From strangers: nothing is listened on unless asked for; connections are taken
// from peers alone; messages are read by a decoder that is fuzzed, and the routes
// in them are skipped unread: a full table costs nothing.
//
// # Rooms
//
// settings.go is what is configured. route.go turns it into messages. session.go
// and receive.go are one peer as a pure machine, with one method for each state
// of RFC 4271 section 8.2.2; cause.go says why it is down and when it is tried
// next. neighbor.go is the shell around a session, wire.go and connection.go its
// sockets, speaker.go all of them.
//
// The messages are those of gobgp's packet library. Its server is not used: its
// first try for a session waits 1.5 s to 2 s, the next ones no less, and 30 s
// after a reset; and what a router announces would have to be kept.
package bgp

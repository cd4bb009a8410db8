// Package bfd is Bidirectional Forwarding Detection over a single hop in
// asynchronous mode: RFC 5880 and RFC 5881, spoken with routers and with one
// another.
//
// # Guarantees
//
// In a partition: a peer that has fallen silent is down after its detection
// multiplier times the agreed interval, and not before: with 100 ms and 3 that
// is 300 ms after the last packet of it that reached this machine. What was
// heard counts from when the kernel received it, so a process that was kept
// from running for a while neither takes its own sleep for the peer's silence
// nor an old packet for a new sign of life. A machine that was stopped as a
// whole gives the peer one interval more, because its kernel has heard nothing
// either.
//
// Under loss: packets go out after 75 to 90 % of the agreed interval, which
// RFC 5880 section 6.8.7 allows, so that three of them fit into a detection
// time of three with a tenth of it to spare. Where a packet is missing, the
// next one that is due asks for an answer (Poll), and the answer is a sign of
// life beside those that the peer sends anyway: at 100 ms, 3 and 2 % loss, two
// such ends count 2 failures in 600 simulated hours, and 798 without asking. A
// peer that does not ask is on its own with what it misses of ours: where it
// allows shorter intervals, 50 ms and 6 take as long to detect as 100 ms and 3,
// with six chances instead of three.
//
// After a crash: the peer finds out by silence. The next run has other
// discriminators and starts in Down, which tells the peer at once. No state is
// kept on disk. On a deliberate end the peer is told AdminDown, which RFC 5882
// forbids it to take for a failure, until it shows that it knows.
//
// With a wrong clock: all times are monotonic. The kernel stamps packets by the
// wall clock; a stamp is believed only within the time since the socket was last
// found empty, so that a step of the clock ages one packet by less than an
// interval.
//
// From strangers: only packets that nobody can have routed here are taken (TTL
// or hop limit 255, RFC 5082), for a known discriminator from its peer's
// address, or, before the peer knows ours, from an address that is configured.
// Everything else is counted by reason and changes nothing.
//
// An interface or local address that is missing, comes back or is made anew is
// picked up without a restart; so is a peer.
//
// # Rooms
//
// packet.go reads and writes packets. session.go is one session as a pure
// machine with receive.go and transmit.go beside it: packets and times in,
// actions out. manager.go is the shell: one loop that reads the sockets
// (socket.go) until they are empty before it asks any session what is due.
//
// Echo, Demand mode of our own, authentication and multihop are not there. A
// peer in Demand mode is obeyed.
package bfd

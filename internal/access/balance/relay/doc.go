// Package relay carries TCP connections between clients and the targets that a
// Picker chooses. It is the data path of the balancer; it decides nothing about
// health.
//
// # Guarantees
//
// A client sees a failure only when no target can be tried any more and no
// attempt is under way, or when its Budget is spent. Attempts race: one that
// is not accepted within Stagger is joined by the next, one that fails is
// followed at once.
//
// Bytes are never said twice where that could matter. What a client says
// before its target answers is said again to another target only if it is one
// TLS ClientHello, or a part of one, and nothing after it. Any other bytes are
// given to one target, once.
//
// What one side says reaches the other whole and in order, or the other sees a
// reset: half-closes are passed on after the bytes before them, a reset as a
// reset.
//
// In a partition: a target that takes a connection and is silent is left after
// FirstByte, one that drops packets after Stagger; data that its kernel does
// not acknowledge is reported within two retransmissions and half a second.
// Established connections are ended by whoever calls Reset, not by the relay's
// own opinion, TCP_USER_TIMEOUT and keepalive apart.
//
// Errors of a client are never reported as evidence against a target, nor are
// those of this machine (LocalFault).
//
// Clients that are slow, many or malformed cost what their limits say and no
// more: kept bytes, queues, connections and descriptors are bounded; at a limit
// accepting pauses, and whoever was served goes on. Pipes have descriptors of
// their own, an eighth of those not reserved and 32 pipes per loop at most;
// without one, bytes are carried by read and write.
//
// An established connection that its target ends out of order is counted at the
// target (Broken), one that its client ends is not.
//
// With a wrong clock: only the monotonic clock is read.
//
// # What it costs
//
// An idle connection takes 1.1 kB; a direction holds 16 kB more while its
// reader is slow (up to 128 kB when it stops after fast reading), and a pipe
// only while bytes move fast: one whose sink takes less than 4 Mbit/s is taken
// back within 200 ms, and what it holds is kept in memory. Socket buffers are
// the kernel's (tcp_rmem, tcp_wmem). Per short connection there are some 15
// system calls.
//
// # Rooms
//
// frontend.go, target.go and event.go are what a caller sees, engine.go and
// listener.go what it holds. Decisions are pure: race.go (who is asked when),
// hello.go (may it be said twice), proxyproto.go, timers.go, dueBy in group.go,
// age.go. A loop (loop.go, gate.go, slots.go) owns sessions; a session goes
// through client.go and opening.go until a target has won, then session.go
// moves bytes by flow.go, splice.go and pipes.go. queue.go holds those who
// wait, sweep.go looks for data that is not acknowledged. sys.go is the kernel.
package relay

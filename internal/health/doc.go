// Package health is one kind of check for everybody: what can this server do
// for a client that stands here?
//
// # Guarantees
//
// With the timers of Default, counted from the fault and whatever the phase of
// the checks:
//
//   - Calm: a server whose process answers every probe within 800 ms, or that
//     stands still for 700 ms, never changes its grade. It may be suspect
//     meanwhile, which moves only new connections.
//
//   - A server that falls silent (stopped, blackholed) is suspect within 1.4 s
//     (1.25 s if it used to answer in under 60 ms) and has a failed grade
//     within 2.1 s; one that answers 500 within 1.5 s.
//
//   - A killed server, whose kernel resets the kept connection and refuses the
//     next, fails at once: two signs and one round trip.
//
//   - A server that comes back serves within 1 s.
//
//   - A server that says it shuts down is graded so on its first such answer,
//     and keeps that grade while it refuses connections, up to a minute: what
//     it still carries is drained and not reset.
//
//   - A server whose new connections fail (cut, refused, frozen, no TLS, a
//     certificate that does not verify) does not come back by the word of an
//     older connection that still answers.
//
//   - A changed CA, certificate or token is tried within 2 s or so: a kept
//     connection that would not come about with them is dropped, and the probe
//     makes a new one. So is one whose server's certificate has expired.
//
// In doubt: time in which the checker itself did not run counts as nobody's
// silence, and what the checker could not do for its own reasons (descriptors
// used up) is no answer at all. Both are reported in Verdict.Doubt. No
// in-band evidence makes a server fail without a probe that agrees.
//
// Credentials that a server refuses are our fault, not the server's: it is
// alive, and Verdict.CredentialsRefused says whom to call. No secret stands in
// a reason.
//
// With a wrong clock: everything is measured on the monotonic clock, except
// the validity of certificates.
//
// # What it costs the server
//
// One request a second on a kept connection, one handshake in ten seconds; a
// handshake more whenever an answer is late; two requests a second while it is
// down. Never more than two probes are in flight.
//
// # Rooms
//
// judge.go, launch.go, tally.go, score.go, suspicion.go and flight.go decide on
// what event.go and timers.go describe (pure: no clock, socket, goroutine or
// random source; testdata shows it as transcripts); checker.go runs the
// decision. check.go makes a Prober (prober.go) from settings: web.go (HTTP/1.1
// on connections of wire.go) with readyz.go and etcd.go, tcp.go,
// command.go; trust.go says which connections may still be asked;
// fault.go grades errors; token.go and kubelet.go find credentials.
package health

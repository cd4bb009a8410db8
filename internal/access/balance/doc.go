// Package balance is a node-local TCP balancer that never sends a client to an
// apiserver that cannot serve, while there is one that can.
//
// # Guarantees
//
// In a partition: a verdict is formed where the client stands. Every backend
// is asked over TLS whether it is ready (package health), and clients'
// own misfortunes count as evidence; a connect that succeeds proves nothing.
// New connections leave a backend that falls silent within 1.5 s of the fault,
// established ones are reset on both sides within 2.5 s, so that a client
// reconnects instead of waiting for its kernel for a quarter of an hour. A
// pause of 700 ms, or answers that take 800, change nothing.
//
// Never empty: the list of backends, once known, is never empty; who fails
// falls to the end of the order and is not struck off it. When every backend
// fails at once the node doubts itself: for ten seconds all are tried, fastest
// first, and no connection is reset. While all that are left are suspect, a
// fall resets nothing yet: the node may be about to doubt itself.
//
// A client sees a failure only when no backend can serve: attempts race on
// across backends within one budget, and a TLS hello that a backend leaves
// unanswered goes to another. When nothing is worth a try the client is
// refused at once.
//
// After a crash: nothing is lost but the connections; the last good list of
// backends is read from disk and judged anew. After SIGTERM, and after a newer
// process has taken the listeners over, connections drain. A newer process
// accepts nobody before the older one has stopped to; whichever of the two
// dies, hangs or is stopped in between, the other serves.
//
// A file system that hangs holds up new settings and nothing else: clients,
// status, an upgrade and SIGTERM do not wait for it.
//
// With a wrong clock: everything but the validity of certificates is measured
// on the monotonic clock.
//
// With bad settings: at the start one line; at a reload the old settings stay
// in force, and status says why.
//
// # Rooms
//
// settings.go, defaults.go and complete.go are the settings; sources.go and
// check.go observe (packages source and health); decide.go decides (pure, with
// package choose); act.go acts. pool.go joins these for one set of backends,
// frontend.go, listen.go and retire.go put settings in force, watch.go says when,
// vital.go what /readyz and /healthz tell, process.go runs it all. relay carries
// the bytes. handler.go and control.go are how a person steers; upgrade.go is
// the newer process's side of a hand-over, with its protocol, handover.go the
// older one's, successor.go starts one.
package balance

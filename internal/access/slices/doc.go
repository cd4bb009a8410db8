// Package slices is `holdfast slices`: endpoints of the kubernetes Service that
// follow readiness and zone, published by one agent beside each kube-apiserver.
//
// # Guarantees
//
// In a partition: an agent judges its own apiserver, over the loopback, and no
// other. Whoever cannot reach the API changes nothing, and what it published
// stays. What others may say of it, they say only after neither it nor its
// apiserver has renewed a Lease for 30 s on their own monotonic clock, while
// their own renewals arrived through the same watch without a break. The list of
// endpoints is never emptied and no endpoint is ever without a zone: package plan
// says why that holds whatever clocks, locks and requests do.
//
// After a crash the endpoint stays as it is; the next start finds out what is
// there, and finishes or undoes what was begun. No state is kept on disk.
//
// With a wrong clock: nothing is decided by a time of the wall clock, own or
// foreign. A difference is reported, for certificates depend on it.
//
// Timers, counted from the fault with a balancer on the node: an apiserver that
// was stopped is out of its zone within 4 s (2.1 s until its check has failed,
// the rest are writes), and a zone that has lost its last one has an adopter
// before that endpoint turns unready. At rest an agent makes one write in 10 s.
//
// In doubt: no zone, no permission, a slice of somebody else, another agent of
// the same node, an apiserver that does not say whether it is ready: one line in
// the log, an Event at the Service, a line in status, and nothing is touched.
//
// # Rooms
//
// settings.go and defaults.go are the settings. observe.go follows the API into
// world.go, with signals.go (Leases) and answers.go (what is newer than the
// watches) beside it; object.go and endpoints.go read and write its objects;
// package plan decides; act.go makes one write, perform.go a list of them.
// path.go is what clients see of the Service, course.go watches where the own
// node's connections land, and walk.go is the command that tries many; package
// landing judges both. agent.go is the loop, transact.go what it does under the short Lease, and
// restraint.go how often. sign.go is the own Lease, learn.go finds addresses and
// datapath, rtt.go distances, contact.go
// whom the own zone can be sent to, ways.go whether there is more than one way to the
// API; dial.go keeps the agent from asking an apiserver that is unwell.
// process.go runs it; complain.go finds what is wrong, problems.go and status.go
// say so.
package slices

// Package plan decides what the EndpointSlices of the kubernetes Service say,
// and who may write it. It is pure: no clock, socket, goroutine or random
// source; what it is told is what it knows, and the same arguments give the
// same answer.
//
// # Guarantees
//
// Never empty. No write of any agent takes the last ready endpoint away, and
// none leaves a zone with nodes without a ready endpoint that hints it, once it
// had one. This holds whatever clocks, locks and requests do: also for a write
// that lands an hour late, and for agents that all believe to hold the Lease.
// It rests on compare-and-swap alone (see Leaning). Excepted are hands in our
// objects between a lean and the write that rests on it, Nodes that appeared too
// late to be known, and zones that nobody has room to hint (see MaxHints).
//
// Never without a zone. An endpoint, ready or not, carries the zone of its node
// and a hint for it. An agent that does not know its zone publishes nothing.
//
// In doubt nothing happens. Nobody but its owner judges an apiserver by its
// answers. Others mark an endpoint unready only when both signs of life, the
// Lease of its agent and the identity Lease of its apiserver, have been seen
// unchanged for 30 s on the judge's own monotonic clock, by a judge whose own
// signs arrived through the same watches all that time, and both are unchanged
// still in what it reads after taking the lock; and only when the endpoint has
// been ready all that time, for turning ready is a sign of life. Nothing is
// deleted on a lapse.
// An owner that alone is ready stays ready, whatever its own apiserver says.
//
// After a crash, at any point between any two writes, the next agent that looks
// finishes or undoes what was begun: every decision is made anew from what is
// stored, and no state is kept but since when something has been seen.
//
// With wrong clocks: nobody reads a time that somebody else wrote.
//
// # Who writes what
//
// Own: the owner of kubernetes-<node> creates it, makes it ready, corrects zone,
// address and port. All of that adds, and needs no lock.
//
// Shared: what takes away, and what is everybody's, is written by whoever holds
// one short Lease: unready endpoints, adopted zones and their return, the slice
// kubernetes, the Service, the object Endpoints. The holder reads all of it anew,
// linearizably, plans, writes in the given order, stops at the first write that
// fails or when its time is up, and plans again until nothing is left.
//
// Withdraw: an owner whose apiserver is unready and who does not get the Lease
// for a second (its holder may be dead) withdraws without it. That can leave a
// zone with two adopters while the Lease changes hands; the next holder mends it.
//
// Refused: an agent whom the API refuses to make an endpoint unready goes on, until
// it may try again, as if that endpoint served (Facts.Held), for to all others it
// does; were it to have the zones adopted all the same, they would undo that. It
// marks nobody meanwhile.
//
// Reached: a zone whose own agents cannot connect to its adopter is moved, in one
// plan, to one that they reach (Facts.Unreached), by the first of them that is not
// late; nodes of one zone that reach different apiservers would undo each other.
//
// # Leaning
//
// An endpoint serves everybody, and each zone it hints, while it is ready. A
// write that ends some of that comes after a write to another slice that serves
// the same (the lean: an annotation, or the hint that is added anyway). Each
// write carries the resourceVersion that was read before the first lean. So if
// the other slice was about to be taken away by somebody who leans on this one,
// either that write or this one finds a changed version and fails. Were the last
// server of a zone taken away, each server in turn would have been leaned on
// later than the one before, the first one too; then the version that its own
// withdrawal was based on had changed.
//
// # Rooms
//
// view.go is what there is, settings.go what a person chose, write.go what there
// is to do and what is known for long enough; observer.go, streams.go and
// reconciler.go know since when; own.go, shared.go, zones.go, lean.go, combined.go
// and endpoints.go decide; problem.go says what a person has to do.
// Package sim runs it through random schedules.
package plan

// Package lease holds short Leases of coordination.k8s.io/v1: one of several
// equal agents acts, the others watch over it.
//
// Guarantees:
//
//   - At most one Lock of a name believes that it is held, at any moment, across
//     partitions, crashes, lost answers and clocks that are set wrong: a Lock is
//     held from before its request was sent for nine tenths of Duration, on the
//     holder's own monotonic clock, while another takes it only after it has seen
//     the same record unchanged for all of Duration on its own, and only by a
//     write to exactly that record (compare-and-swap on resourceVersion).
//   - It takes clocks that run at rates within a tenth of each other. What time
//     they show does not matter: renewTime is written for people and compared for
//     equality, never for age.
//   - In a partition the holder stops believing by itself, without hearing from
//     anybody; whoever reaches the API takes over within Duration plus one look.
//   - An answer that is lost changes nothing: the Lock reads before it writes
//     again, and counts from the last request that is known to have been done.
//   - After a crash nobody acts for at most Duration and one look; after Release,
//     for one look. A Lease that did not exist is held Duration after it was
//     created: whoever held it when somebody deleted it does not know yet.
//   - Fields of a Lease that are not ours, such as labels, stay as they are.
//
// Not promised: that a request sent while held has no effect afterwards. It may
// lie in a queue, and a machine that was suspended resumes with the clock it
// had. So a holder's writes carry the resourceVersion they are based on, and
// what cannot carry one bounds its requests by Context. Two processes with one
// Identity are one holder: make it with NewIdentity.
package lease

// Package judge turns the record of a drill run into a verdict.
//
// Guarantees:
//
//   - [Run] and [Assemble] are pure: the same record gives the same report, so
//     a saved directory can be judged again years later, or by stricter rules.
//   - Four questions are kept apart and asked in this order. Was the cluster
//     steady before? Was the fault really there? Was the outage of each
//     affected path inside its window? Did the other paths stay clean, and was
//     everything whole after the heal? A "no" to one of the first two makes
//     the run inconclusive, whatever the others say: a drill that did not test
//     anything is neither passed nor failed.
//   - A recovery is dated by the answer that proves it, never by the request:
//     a read that waited inside the server for a new leader proves nothing
//     about the moment it was sent. So a recovery is never reported early; it
//     is late by one sampling interval at most.
//   - An outage is given as bounds by the send times of its first and last
//     failed and the surrounding good samples.
package judge

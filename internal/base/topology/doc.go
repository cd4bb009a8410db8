// Package topology describes who can reach whom.
//
// Guarantees:
//   - A pair of nodes works when either end says so. Raft opens its streams
//     from both sides, so one direction of dialling is enough; a probe that
//     fails one way proves nothing.
//   - A pair is down only when some end says Down and no end says Up. Silence
//     is Unknown, and Unknown is never counted as down.
//   - Counting is two-sided: what a node certainly sees and what it may see
//     are different numbers, so a caller can compare the worst case of one
//     node with the best case of another.
//
// Everything here is a pure value; nothing reads a clock.
package topology

// Package route hands addresses to a routing daemon that runs beside the agent:
// each is a route of its own in a table of the kernel, which FRR imports with
// `ip import-table`, and BIRD with `kernel table`.
//
// # Guarantees
//
// After a crash: routes stay, since the kernel does not know whose they are;
// the next run takes back what an earlier one has left, by protocol number and
// table, before it announces anything. Where a killed agent must not leave a
// route behind, use BGP of this agent's own instead.
//
// With others at work in the same table: only routes of the protocol number are
// touched, and one that somebody has removed is put back at once.
//
// Nothing depends on clocks.
package route

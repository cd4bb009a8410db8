// Package sim runs the election by lease through simulated time.
//
// Guarantees:
//   - The decisions are the real ones: every node runs a lease.Machine and does
//     what it says.
//   - A schedule is a function of its seed. The same seed gives the same faults,
//     delays and writes, on any machine.
//   - The world keeps its own truth, by one true time, about what each node's
//     kernel lets through: from an action Hold until its deadline by that node's
//     clock, whatever has become of the process.
//
// The invariants. Judged at every change:
//
//  1. No two kernels let the address through, save one that has given it away and
//     lingers beside its successor: at most a second, and not past the deadline
//     that it had.
//  2. Nobody goes on holding after its deadline, and nobody holds again what it
//     has given away before it has let go.
//  3. Who takes over was named by the record that it replaces, in a higher turn.
//  4. Who has stopped holds nothing.
//
// In a quarter of the schedules nothing but the API is broken, for everybody, again
// and again, and up to 2 % of datagrams are lost at the same time:
//
//  5. Nobody lets go.
//
// In the others anything happens. Then all is mended, and judged at rest:
//
//  6. Exactly one holds the address, and goes on. It writes as often as it should,
//     and nobody reads while news come.
//  7. When the holder dies it is replaced within a lease by the slowest clock, the
//     lag of a watch and a few ways to the API.
//  8. The dead one returns, and nothing moves.
//  9. The holder stops: it lets go after its successor answers, not before.
//
// What is modelled: processes that are killed, restarted, frozen and thawed;
// machines that die; an API that hangs or refuses, for one or for all; requests
// that are done long after their caller gave up; answers and datagrams that are
// lost; cuts from any node to any other, one way or both; watches that lag; clocks
// whose rates are up to 1 % wrong; leases that differ from node to node; records
// deleted by hand; changes of who may hold it; operators who release and stop. What
// clocks show does not occur in the decisions, so there are no steps of them.
// Not modelled: versions that go back, and hands in a record.
//
// A million schedules:
//
//	go test ./internal/address/elect/lease/sim -run Schedules -schedules=1000000 -timeout=4h
//
// One schedule again, with its story (-wire adds messages and requests):
//
//	go test ./internal/address/elect/lease/sim -run Schedules -seed=N -schedules=1 -v
//
// HOLDFAST_SIM_SCHEDULES and HOLDFAST_SIM_SEED do the same without flags. The
// transcripts in testdata play single faults with the defaults; -update writes
// them anew.
package sim

// Package choose picks the backend of a new connection. It is pure: tables in,
// an index out; time, chance and connection counts are arguments.
//
// Guarantees:
//
//   - A backend that is not ready is never picked while one that is ready has
//     not failed this connection: not while it is full (the client waits), and
//     not while an attempt on it is under way. One that is alive comes when all
//     that are ready have failed, any other when all that are alive have, too.
//   - A table of backends that a person has not all held never answers None to
//     a first try while one of them is ready, alive or not yet known.
//   - Picking changes nothing: neither probes nor failed attempts move the
//     choice of the next connection.
//   - A suspect backend (one late answer, say) is passed over while another of
//     its grade is not; its connections are left alone.
//
// Order of preference: grade, then suspicion, then backup, then own zone. What
// is left is spread by the policy, for least connections with a soft weight by
// distance: of two backends 0.2 and 20 ms away the near one gets about ten
// times the connections, of two 0.2 and 0.4 ms away both get the same. Ranking
// by hard classes of latency sends everything to the nearest server, and to
// another one after every probe.
package choose

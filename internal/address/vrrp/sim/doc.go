// Package sim runs virtual routers through simulated time.
//
// Guarantees:
//   - The decisions are the real ones: every node runs a vrrp.Group of real
//     machines, called as a shell has to call them.
//   - A schedule is a function of its seed. The same seed gives the same
//     faults, the same delays and the same moves, on any machine.
//   - The world keeps its own truth: who can hear whom, and whose kernel
//     answers for the address at every moment. Every move is judged against
//     it, not against what the nodes believe.
//
// The invariants:
//
//  1. Two nodes that hear each other never both answer for longer than an
//     advert interval and a round trip. Also when one of them is killed,
//     frozen or suspended: its dead-man silences it before anybody takes over.
//  2. No node takes the address from a living holder that it hears, unless it
//     preempts by its configuration, owns the address, or relieves a holder
//     whose priority has fallen. So a returning node takes nothing back.
//  3. A holder that stops or is released stops answering when another node
//     answers, not before, if there is a backup that hears it.
//  4. A holder that falls silent is replaced within three intervals, the
//     skew, and the way.
//  5. After things calm down, each part that is connected has exactly one
//     holder, and nothing changes any more.
//
// What is modelled: links that lose, delay and cut adverts, each way by
// itself, in order; processes that run late, are killed, frozen (their kernel
// queues what arrives), suspended with their whole machine (what arrives is
// lost, the clock goes on), stopped and released in good order, at fault or
// of changing priority; the dead-man, three intervals from the last advert;
// clocks that run up to 1 % too fast or slow, each from its own origin; groups
// of two routers on two links. Actions take no time.
//
// A million schedules:
//
//	go test ./internal/address/vrrp/sim -run Schedules -schedules=1000000 -timeout=2h
//
// One schedule again, with its story:
//
//	go test ./internal/address/vrrp/sim -run Schedules -seed=N -schedules=1 -v
//
// HOLDFAST_SIM_SCHEDULES and HOLDFAST_SIM_SEED do the same without flags.
package sim

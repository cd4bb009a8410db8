// Package sim runs leader placement through simulated time.
//
// Guarantees:
//   - The decisions are the real ones: every agent runs leader.Decide on the
//     rows and links it would have, through the real hysteresis filters.
//   - A schedule is a function of its seed. The same seed gives the same
//     faults, the same delays and the same moves, on any machine.
//   - The world keeps its own truth (who can reach whom, who leads, when each
//     move began), and every move is judged against it, not against what
//     agents believe.
//
// The invariants, checked at every move and at the end of every schedule:
//
//  1. No two moves stand inside the damping window, across all agents and
//     their restarts.
//  2. No move goes to a member that sees fewer voters than the leader: by the
//     rows at hand, and by the truth of the last while (see detection).
//  3. No move is caused by a member that nobody reaches, by a restart, by a
//     defragmentation, or by probes alone.
//  4. Once calm for longer than detection and with the penalty run out, no
//     fit voter sees strictly more than the leader while a voter is lost.
//
// What is modelled: raft leadership with PreVote, CheckQuorum and transfer
// (not its log, beyond who lacks entries); streams that either end can dial;
// probes, their burst and their timeouts; rows on change and every 5 s, over
// etcd or over other agents, late or lost; the penalty record, written before
// each move. Clocks of machines are not modelled because nothing reads them:
// rows carry ages, and an agent's own time starts at an arbitrary number and
// may stop while its machine is frozen.
//
// A million schedules:
//
//	go test ./internal/quorum/leader/sim -run Schedules -schedules=1000000 -timeout=2h
//
// One schedule again, with its story:
//
//	go test ./internal/quorum/leader/sim -run Schedules -seed=N -schedules=1 -v
//
// HOLDFAST_SIM_SCHEDULES and HOLDFAST_SIM_SEED do the same without flags.
package sim

// Package sim runs the protocol of a pair through simulated time.
//
// Guarantees:
//   - The decisions and the arbiter's client are the real ones: every agent runs
//     pair.Decide on what it has observed, and changes the record by arbiter.Client
//     on a store with delays, losses and refusals.
//   - A schedule is a function of its seed. The same seed gives the same faults,
//     delays and writes, on any machine.
//   - The world keeps its own truth, entry by entry: what any member ever knew to
//     be committed.
//
// The invariants. Judged at every change:
//
//  1. No two members can acknowledge writes alone at one moment, and all histories
//     of committed entries are one.
//  2. Whatever was committed is there whenever a linearizable read is answered.
//  3. solo(X) is changed by nobody but X or a person, and paired is written only for
//     two voters that have both acknowledged a write since they are two.
//  4. Each edit of a log uses up a claim of that very process, of a stopped etcd,
//     and was preceded by a read after the stop that saw the claim's nonce.
//  5. No directory is moved aside that the survivor has as a member, and none is
//     removed.
//
// In an eighth of the schedules nothing but the arbiter is broken, and agents die:
//
//  6. Nobody stops etcd, and the pair stays one.
//
// In the others anything happens. Then all is mended:
//
//  7. Within 120 s the record is paired again, both take writes, and that lasts. Where
//     a person's hold or a survivor without data explains that it is not, a
//     person does what `holdfast pair status` asks for, and then it is.
//
// When a person accepts a loss, the survivor's log becomes the truth. What two voters
// had acknowledged must be in it all the same; what members of the old history do is
// not judged.
//
// What is modelled: raft with its log, terms, votes, PreVote, CheckQuorum, commit
// indexes that a follower learns with the next message, learners, snapshots, changes of
// membership in the log, leases of leaders, disks that lose what was not synced; agents
// whose every action is several steps, and who may die at each, with their etcd or
// without; edits of which half comes to the disk; observations that are late or
// were so when they were asked for; processes that stand still and messages that wait for
// them meanwhile; links cut one way or both; an arbiter that hangs, refuses, denies, is
// slow, loses requests and answers and does later what its caller has given up, for one
// site or both, and goes back; power losses, disks replaced, directories damaged, disks
// without space; sites that do not see their clients; people who claim, release, claim
// with loss of data and take members out, wisely or not; clocks whose rates are up to 1 % wrong. A record's time jumps by centuries at every
// change; nothing goes by it.
// Not modelled: an arbiter that goes back behind what one site has seen, or fails its
// race; directories that go back; more than one process of etcd or of holdfast at a site.
//
// A million schedules:
//
//	go test ./internal/quorum/pair/sim -run Schedules -schedules=1000000 -timeout=4h
//
// One schedule again, with its story:
//
//	go test ./internal/quorum/pair/sim -run Schedules -seed=N -schedules=1 -v
//
// HOLDFAST_SIM_SCHEDULES and HOLDFAST_SIM_SEED do the same without flags. The
// transcripts in testdata play single troubles at the defaults; -update writes them
// anew.
package sim

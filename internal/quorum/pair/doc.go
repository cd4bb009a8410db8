// Package pair keeps an etcd of two members writing when either is lost.
//
// One agent beside each member, and one record in a third place, the arbiter. When
// one member is lost, the agent of the other claims the record, stops its etcd, makes it
// the only member by editing its log, and starts it. The lost one joins anew when it
// is back.
//
// # Guarantees
//
// Never two members that can write, and no acknowledged write lost: a member is edited only
// on a licence, which is an own successful change of the record from paired or from
// solo(self), read once more after etcd was stopped. docs/design/pair.md has the argument.
// What a person accepts with --accept-data-loss is the only exception.
//
// In a partition: one of the two, or nobody, goes on. Who cannot read the arbiter does not
// start a takeover, and does not stop serving either.
//
// After a crash at any moment, of the agent, of etcd, or of the machine: the next
// agent goes on from what it finds. Nothing that may not be lost is in memory. An
// agent that dies leaves etcd running; the next finds it.
//
// With a wrong clock: no decision reads the wall clock.
//
// Without the arbiter: a pair that is well does not need it, and one that serves alone goes on.
// An arbiter that has gone back (a restored backup), or has another cluster's record, is
// not believed; then nobody may serve alone.
//
// Data is never deleted but where a newer copy of it was moved aside before.
//
// # Rooms
//
// settings.go is what a person writes. observe.go and reading.go see; view.go, decide.go and rejoin.go decide (pure: no
// clock, socket or goroutine); act.go acts; agent.go is the loop; memory.go is what an agent
// remembers; claim.go is what a person may change; status.go says how it stands. Package
// arbiter has the record and its back ends, wal the surgery, supervise the etcd process, and
// sim runs the decision through random schedules.
//
// docs/guide/pair.md is for users.
package pair

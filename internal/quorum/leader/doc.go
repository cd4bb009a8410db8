// Package leader moves the etcd leader away from a partial split.
//
// With the link A–B cut and both sides still seeing C, a leader in A keeps its
// quorum and B stays without a leader for the whole split (PreVote and
// CheckQuorum make C ignore B's campaign). One agent beside each member ends
// that: the agent beside the leader moves leadership to the member that sees
// everybody.
//
// # Guarantees
//
// In a partition: only the agent beside the true leader acts, on the member's
// own word read just before, through etcd's MoveLeader, which nobody but a
// real leader can carry out. Agents' opinions never grant leadership; they
// narrow the choice of whom to hand it to. A voter counts as lost only when
// its own fresh row says that its raft has no leader. A missing or stale row
// means unknown, never down.
//
// After a crash: an agent killed at any moment leaves etcd as it was. The
// record that damps further moves is durable before the move begins. A
// restart can only lengthen a wait.
//
// With a wrong clock: no decision reads the wall clock, and no two machines'
// clocks are ever compared. Rows carry ages; readers age them on their own
// monotonic clock.
//
// Without the agent: a dead agent is at worst the situation without it. It
// holds no lock, stands in no request's path, and etcd never waits for it.
//
// # What a move costs
//
// Requests in flight through a follower at the moment of a move hang until
// etcd's request timeout of 7 s, and some on the old leader fail at once. So
// moves are rare by design: the first after calm is fast (the link certainly
// down, then 2 s), each move adds a penalty that halves in 30 s, and the next
// waits until it is below one half.
//
// # Rooms
//
// settings.go is what a person writes. observe.go, watch.go and tracker.go see;
// store.go, publish.go, mesh.go and registry.go hand rows around; snapshot.go,
// view.go, decide.go, return.go and damping.go decide (pure: no clock, socket
// or goroutine); act.go and decision.go move; agent.go and rounds.go are the
// loops; explain.go and status.go say why. Package sim runs the decision
// through random schedules.
package leader

// Package etcd talks to one etcd member at a time, for agents that must not
// be fooled by a half-broken cluster.
//
// Guarantees:
//
//   - A Member is bound to exactly one endpoint: an answer always comes from
//     the member that was asked, never from a neighbour that a balancer picked.
//   - Every call has a deadline, also MoveLeader, which etcd itself never ends
//     (it polls until the leader changed or the caller gave up).
//   - Nothing is retried behind the caller's back.
//   - A Prober asks a peer's listener exactly what etcd asks it
//     (GET /raft/probing over TLS with the peer certificate), never bare TCP,
//     which makes etcd log an error per connection.
package etcd

// Package sim runs the plan of endpoints through simulated time.
//
// Guarantees:
//   - The decisions are the real ones: every agent shows what its watches bring
//     to a plan.Observer, asks plan.Own, plan.Shared and plan.Withdraw, and
//     writes what they say, in that order.
//   - A schedule is a function of its seed. The same seed gives the same faults,
//     the same delays and the same writes, on any machine.
//   - The world keeps its own truth (what is stored, which apiservers answer,
//     when each Lease was renewed), and every write is judged against it, not
//     against what agents believe.
//
// The invariants. Judged at every write that an agent makes, on time or late:
//
//  1. It does not take the last ready endpoint away, neither of ours nor of all
//     that kube-proxy sees.
//  2. It does not take the last endpoint of a zone with nodes away.
//  3. It publishes no endpoint, ready or not, without zone and hint.
//  4. A holder in its turn gives no zone a second adopter, unless the same plan
//     goes on to end the first (whose apiserver is unready, or gone). Who writes
//     without the Lease, or after its turn, may.
//  5. It marks another's endpoint unready only if at the reading that it rests on
//     both Leases of that node had stood still for 30 s (by clocks that run up
//     to 1 % fast), the endpoint had been ready all that time, and the marker had
//     news all that time.
//  6. It takes over the slice kubernetes from no apiserver that writes it, unless
//     it is empty, and writes nothing that is not ours. The object Endpoints it
//     writes only where that slice is ours, and never empty.
//
// Judged all along:
//
//  7. No zone with nodes is without an endpoint, and none has two adopters, for
//     more than 3 s, while some agent can act: it is up, its apiserver list
//     answers, its watches work, and none of its requests was lost or refused
//     (see below); and while the Lease is free or in the hands of such an agent.
//     When it is in dead hands that lasts one turn (3 s) and two looks longer,
//     and no more, where no request is lost.
//  8. No zone is sent for more than 3 s to where none of its control-plane nodes
//     connects, while they all connect to another that is well, and all of their
//     agents have known for 2 s that their own apiservers are not; as 7 otherwise.
//  9. A list that somebody emptied by hand is filled within 11 s of the same, where
//     the zone of some slice is left in it or in the slice kubernetes.
//
// Judged at rest, with what is broken left broken in half of the schedules:
//
//  10. Endpoints say what their owners know; those of the dead are unready, unless
//     they are the last. Every zone has endpoints of its own, or one adopter.
//     Nothing is adopted that has nodes no more, or its own. The slice kubernetes
//     is complete, and ours unless an apiserver writes it; where it is ours, the
//     object Endpoints lists its ready members. Both datapaths send
//     each zone to endpoints that hint it. Nobody writes any more.
//
// Excused from 1, 2, 4 and 5 for a minute: hands in our objects. What somebody
// deletes between a lean and the write that rests on it protects nothing. And
// from 2 and 4: Nodes that changed zones, which a watch that stands still hides.
// Most schedules have neither, so all others are judged without excuse.
//
// Excused from 7, because nobody could have known or done better:
//
//   - An agent that was refused, until it may try again: after half the time from
//     the first to the last refusal in a row, and a fifth of that. It cannot know
//     that it would not be refused now, and a policy that refuses for hours is not
//     to be asked each second. Counted are refusals that the store gave, not what
//     the agent makes of them: who tried once has no more time than others.
//   - A Lease that had to be made anew is nobody's for a turn, for who held the one
//     that was deleted does not know yet. Only after that turn it is in dead hands.
//   - Two adopters, while no Lease of a node whose apiserver is well was renewed in
//     30 s: to the others none of them is known to be well, and none is taken away.
//
// What is modelled: apiservers that die, hang, restart with and without their
// reconciler; machines cut off or gone; agents that die, restart, stand still or
// lose their way to the API; watches that lag or stand still; requests lost
// before or after they were done, or done up to 20 s late; clocks at other rates;
// Nodes that move; hands in slices and Leases; writes that are refused; agents
// whose settings differ, and apiservers whose ports do. Refusals are as of a webhook
// that fails; what only a person can mend is tried again more rarely. Not modelled:
// reads of slices that are not linearizable, and etcd itself.
//
// A million schedules:
//
//	go test ./internal/access/slices/sim -run Schedules -schedules=1000000 -timeout=4h
//
// One schedule again, with its story:
//
//	go test ./internal/access/slices/sim -run Schedules -seed=N -schedules=1 -v
//
// The transcripts in testdata play single faults; -update writes them anew.
//
// HOLDFAST_SIM_SCHEDULES and HOLDFAST_SIM_SEED do the same without flags.
package sim

// Package offspring starts processes that do not outlive this one.
//
// Guarantees:
//   - A process that Start has started is killed when this process ends, however it
//     ends: the kernel sees to it (prctl(2), PR_SET_PDEATHSIG).
//   - It is not killed before. To the kernel the parent is the thread that forked, and
//     the runtime ends a thread whose goroutine ended while it was locked to it, as one
//     that had changed its network namespace must. So one thread starts them all, and
//     it never ends.
//
// Its own children are not covered: they outlive it unless it sees to them.
//
// Use it for the peers of tests and benchmarks, and never for an etcd that is in
// service: that one has to survive its agent.
package offspring

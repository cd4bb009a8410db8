// Package lease decides who holds an address by one record that is kept where
// writes are compare-and-swap: a Lease of Kubernetes or a key of etcd. Machine
// decides, Agent carries out.
//
// Guarantees:
//
//   - At no instant do two hold the address: across partitions, crashes, frozen
//     processes, lost or late answers, and whatever clocks show. A holder stops by
//     itself at a deadline on its own monotonic clock, a lease less a margin after
//     it sent its last write that is known to be done. Another takes an expired
//     record only after it has seen it unchanged for a whole lease, and only by
//     compare-and-swap. Clocks may run at rates that differ by half the margin.
//   - It also takes it only after a whole lease in which it reached the API without
//     a break, and only if the record names it as a peer. So after an outage of the
//     API the holder has a lease to renew, and a newcomer takes nothing.
//   - A holder without the API lets go at its deadline; with policy Keep only if
//     some named peer reaches the API or is not heard. A peer that answers "not
//     reached" promises not to take an expired record for a lease from then, and
//     does not promise while a write of its own might yet make it the holder. The
//     holder counts from when it asked. Words only prolong what is held: nobody
//     comes to hold the address by them, nor holds it again once it has let go.
//   - A returning peer takes nothing back: there is no preference.
//   - A hand-over is one write that names the successor, chosen among peers that
//     have just said that they are ready and reach the API. The old holder answers
//     until it hears that the successor does, at most a second and never past its
//     deadline; in this overlap both answer. When it does not reach the API it tells
//     the successor itself, and the record changes hands by the successor's write.
//     When no peer is heard the record is left to whoever comes first.
//   - A holder that is not ready stays until a peer is ready: in doubt, nothing.
//   - With the defaults a silent holder is replaced 1.5 to 2.6 s after it fell
//     silent; the holder writes once a second, and the others watch, and read when
//     they have heard of no renewal for 1.1 s.
//
// Not promised. A machine that is suspended or whose virtual machine is paused
// resumes with the clock it had, unless the caller's clock counts that time; Agent
// uses CLOCK_BOOTTIME, which counts suspension but no pause that the hypervisor
// hides. A record that somebody edits or deletes by hand is safe only while all
// peers are configured with the same peers and duration: whoever makes it anew
// does not know what it said. Two processes with one name are told apart, but only
// one of them answers questions. Whoever can read the Lease can read the key in it
// and answer for every peer: use a key file where that matters.
//
// When every peer that the record names is gone for good nobody takes it: delete it.
//
// Usage: one ask.Socket for the process, one Store (package kube or etcd) and one
// Agent for each address or group of addresses that move together. The Actor opens
// the kernel's gate until Holding.Until, and the caller tells the Agent when the
// network has heard of it (Announced), when another is heard claiming the address
// (Rival), and whether this node could serve it (SetReady). The context of Run ends
// with a hand-over.
package lease

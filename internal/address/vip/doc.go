// Package vip is `holdfast vip`: addresses that outlive their machine, held by
// VRRP, by a lease, or everywhere, under a health gate.
//
// # Guarantees
//
// In a partition: with vrrp each side that hears no other has a holder. With
// lease there is one holder at most, at every instant; see package lease. With
// anycast every healthy machine has the address.
//
// After a crash: an agent that is killed or stopped renews nothing, and the
// kernel makes its addresses mute three adverts later (lease: at the deadline of
// the lease), also the kernel's own questions by ARP, and takes them off the
// interface after 2 s. An agent that starts removes what an earlier run left, and
// listens before it takes anything. One that is continued gives up at once, and
// without a second gap.
//
// With a wrong clock: only durations on the monotonic clock are used.
//
// A hand-over (SIGTERM, `holdfast vip release`, preemption) has no gap: the old
// holder answers until it hears the new one.
//
// Routers are told of an address after it has begun to answer, and that it is gone
// before it ends: with anycast it answers on for what is under way. An agent that
// is killed is withdrawn by the kernel, which ends its sessions of BGP; one that
// is stopped, or whose machine is dead, by BFD; a route in a table stays until the
// next start.
//
// In doubt: an address that a stranger has is not taken, and the log says who has
// it. A check that was never made is not good. An interface that is missing,
// down or renamed is waited for, and the others are told at once where that is
// possible.
//
// # Rooms
//
// settings.go, defaults.go and checks.go are the settings. owner.go runs virtual
// routers (package vrrp decides; perform.go acts; faces.go is what comes in from
// kernel, checks and people), tenant.go groups held by lease (package lease
// decides), anycast.go those held everywhere. Package hold makes addresses
// answer and stop, package wire carries adverts; presence.go has routers follow,
// told by what routing.go runs. healthgate.go, look.go and paths.go are the
// checks, hooks.go runs programs. agent.go and process.go put it together;
// control.go, status.go and metrics.go say what is going on, manifest.go what to
// install.
package vip

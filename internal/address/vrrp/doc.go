// Package vrrp decides by VRRP who holds a virtual address: the codec of
// version 3 (RFC 9568, IPv4 and IPv6) and version 2 (RFC 3768, IPv4), and the
// state machine. Both are pure: no clock, no socket, no goroutine.
//
// # Guarantees
//
// After things calm down, each set of routers that hear one another has
// exactly one holder. Two holders that hear each other are one again within
// one advert interval and a round trip: the better priority stays, then the
// higher address.
//
// In a partition each side has its own holder. VRRP knows no quorum; an
// address that must never be held twice wants an election over a lease.
//
// A returning router takes nothing back unless Config.Preempt says so, and
// neither does one that was frozen: after three intervals without running, a
// holder takes itself for a backup, as everybody else does, and a backup that
// did not run for one listens anew before it believes in silence.
//
// A hand-over (Machine.Stop, Machine.Release, or giving way to a better
// router) leaves no gap: the old holder answers until it hears the new one,
// and the new one answers before it says so. Config.Linger bounds the wait.
//
// A crash needs no record: a machine that starts again listens first. Silence
// in between is the work of the dead-man in the kernel, which every Send
// renews for three intervals.
//
// With a wrong clock: only durations on one monotonic clock are used. Clocks
// that run apart by 1 % cost nothing.
//
// What an advert says is not authenticated, in any version that is in use.
// Who can send on the link can take the address; CheckTTL keeps out everybody
// else.
//
// # Differences from RFC 9568
//
//   - Yielding, after Active: see State.
//   - A holder whose priority falls is relieved even without Preempt, unless
//     Config.Stay.
//   - Resigning counts only from the router that is followed, and never puts
//     a timer off.
//   - Become comes before Send when taking over.
//   - Adverts with other addresses of the same virtual router, or with another
//     interval in version 2, are heeded and noted; see Note.
//
// On the wire it speaks with keepalived and FRR in both directions: the skew
// of each version, the interval learned from the active router, multicast or
// unicast.
//
// # Rooms
//
// wire.go, advert.go, parse.go, checksum.go and reason.go are the codec.
// config.go is what a person writes. machine.go is the calls; initialize.go,
// backup.go, active.go and yielding.go are the states, one each; concern.go
// says which adverts count; timers.go has every interval and its source;
// action.go is what comes out. group.go moves several machines together.
// Package sim runs machines through random schedules.
package vrrp

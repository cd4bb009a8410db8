// Package wire carries VRRP adverts: raw IP sockets of protocol 112 around the
// codec of package vrrp.
//
// Guarantees:
//
//   - What is handed on was sent on this very link: TTL or hop limit 255, to
//     the group of the protocol or, with peers, to an address of this machine
//     by one of the peers. Everything else is counted by reason.
//   - Adverts leave with TTL 255 from the address given, by the interface
//     given, whatever the routes say.
//   - Drain reads what waits in the socket without waiting itself: after a pause
//     of this process, adverts that were sent in time are seen before a timer is
//     judged.
//   - Our own adverts are not heard.
//   - One advert in fifty may be lost. With intervals below a second each is sent
//     twice, one right after the other, which a receiver takes for one that came
//     late: of those with 100 ms three in a row are lost to one of two backups once
//     in two hours at 2 % when they are sent once, and once in 25 years when twice.
//     It costs no time to find out that a holder is silent, as a shorter interval
//     would. Against losses in bursts it does nothing.
//
// Needs CAP_NET_RAW.
package wire

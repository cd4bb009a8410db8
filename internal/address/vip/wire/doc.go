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
//
// Needs CAP_NET_RAW.
package wire

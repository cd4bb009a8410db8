// Package segment makes one Ethernet segment with a few stations on it, for
// tests of what happens on a wire: ARP, neighbor discovery, VRRP, BFD.
//
// Guarantees:
//
//   - Every station and the bridge between them are anonymous network
//     namespaces of real kernels. Nothing of them has a name outside or is left
//     behind, however the process ends (package space).
//   - Silence cuts a station off without its noticing: its carrier stays, as
//     when a cable is pulled behind the next switch. Unplug takes the carrier
//     away, as when its own cable is.
//
// Station i, counted from 1, has eth0 with 192.0.2.i/24, 2001:db8::i/64 and
// fe80::i/64, and the hardware address 02:00:00:00:00:i.
package segment

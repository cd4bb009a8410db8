// Package hold makes addresses answer on this machine, and makes them stop:
// the gate of package gate, the addresses of package link and the
// announcements of package announce, in the order that has no window.
//
// Guarantees:
//
//   - Whoever decides lets the addresses answer for a time, and again and again
//     before it is over. Once it is over they are mute by the kernel's hand, even
//     if this process is dead or stopped, and 2 s later gone from the interface.
//     Only Take makes them answer again.
//   - Take opens the gate first, then adds the addresses, then announces them:
//     from the first announcement on they answer. Drop mutes first, and then
//     removes: an address that is to be gone resets nobody's connection.
//   - Renewing, and muting, wait for no change of addresses, which the kernel may
//     hold up for as long as others change interfaces.
//   - An address that somebody else removes while it is held is back at once, and
//     announced.
//   - The interface of a virtual router (Config.Virtual) is up while the
//     addresses are held, and down otherwise: what is sent to its hardware address
//     is another machine's then. Somebody who removes it or sets it down finds it
//     up again at the next refresh, half a second later at most. That of an agent
//     that is dead stays up, without its addresses, until an agent starts again.
//   - A claim by a rival is answered by another burst while the address is held
//     and not being handed over.
//
// Decisions are elsewhere: this package holds what it is told to, for as long as
// it is told to.
package hold

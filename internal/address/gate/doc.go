// Package gate is the dead man's switch of an address holder: nftables elements
// with a timeout, without which this machine's kernel neither claims nor
// answers for an address. An agent that is killed or stopped falls silent by
// the kernel's hand.
//
// Guarantees:
//
//   - From Guard on, and while an address is not open, no ARP packet with the
//     address as its sender, no neighbor advertisement for it and no IP packet
//     from it leaves, and no IP packet to it gets in. Its sender in ARP matters
//     as much as the answers: the kernel of a dead holder goes on asking for
//     its clients with the address as sender, and each question wins their
//     cache entries back.
//   - Where the kernel has egress hooks (5.16 and later) this holds for raw
//     sockets too: an announcement that a frozen process was about to send does
//     not leave when it is continued. Egress reports whether it has them.
//   - An address is open until its timeout has passed, to a tick of the kernel's
//     clock (1 to 10 ms), whatever happens to this process. Renew fails with
//     ErrShut once it has passed: a process that was frozen in the middle of
//     renewing does not open it again.
//   - OpenUntil and RenewUntil never leave it open past the deadline, wherever
//     between two instructions the process was frozen, and for however long.
//   - Every change is one transaction; a packet sees it whole or not at all.
//     Several addresses renewed together stay open or fall shut together.
//   - What passes through this machine to or from the address on another one is
//     not touched: only packets for a local address are held back.
//   - A virtual router that does not accept what is sent to its addresses
//     (Config.Refused) is found by its neighbours and forwards, and no more. An
//     address with a virtual hardware address (Config.Virtual) is never claimed
//     with another.
//   - What a dead agent leaves behind, shut addresses, outlasts it. That is the
//     point. An address put on the machine by hand meanwhile is mute; Clear, or
//     `nft delete table` for inet, arp and netdev, gives it its voice.
//
// What an eBPF program takes off the wire before netfilter sees it is not held
// back. It gets there only from a neighbour with an old cache entry, since the
// claims are held back all the same.
//
// A suspended machine or a paused virtual one is beyond this: its kernel's clock
// stands too, and what was open still is when it wakes.
//
// The rules are in tables of their own, inet, arp and netdev, all of one name.
// They hold no verdict but drop, and take precedence over nobody's rules.
// Needs CAP_NET_ADMIN.
package gate

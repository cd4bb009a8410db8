// Package link puts an address on an interface for as long as somebody refreshes
// it, and watches interfaces and addresses.
//
// Guarantees:
//
//   - An address is put there with a lifetime of two seconds. Whatever happens
//     to the agent, the kernel takes it away 2 to 2.5 s after the last refresh.
//     What an earlier run left is therefore gone soon, too; Clean takes it away
//     at once.
//   - An address that somebody else put on the machine is never touched:
//     neither taken over, nor given a lifetime, nor removed. *Foreign names it.
//   - The address is not chosen as a source. For IPv6 it is deprecated; for
//     IPv4, where the kernel ignores that, its scope is host, so that it is not
//     even chosen when it is the only one left. It answers all the same, unless
//     somebody has set arp_ignore to 3.
//   - IPv6 does without duplicate address detection and its second of silence:
//     package announce asks beforehand.
//   - A virtual interface asks and answers with its own hardware address for its
//     own addresses only, and makes none of its own. Clean and CleanVirtual take
//     off what an earlier run of the same owner left, and nothing of others.
//   - A Watcher reports states, not messages: what is reported holds at that
//     moment by the kernel's word, and after lost messages it compares again.
//     An interface that was renamed is followed by its index.
//
// IPv6 addresses are lost by the kernel when their interface goes down. The
// Watcher says so, and the next Refresh puts them back.
//
// A Handle and a Watcher belong to the network namespace of the thread that
// opened them. Needs CAP_NET_ADMIN.
package link

// Package announce tells an Ethernet segment where an address lives now, by ARP
// (RFC 826, RFC 5227) and Neighbor Discovery (RFC 4861), and hears who else
// says so.
//
// Guarantees:
//
//   - An announcement is one gratuitous ARP request and one reply for IPv4, and
//     one unsolicited advertisement for IPv6, made so that Linux, which takes a
//     gratuitous reply for one only if both hardware addresses are the sender's,
//     updates an entry that it has just learnt from somebody else.
//   - The first announcement is due at once, the following ones are spaced, and
//     none is lost to a rival: every claim that was heard is answered, at most
//     one burst per Pace.Floor.
//   - A frame is judged whole or not at all: a truncated one, one of another
//     hardware or protocol, a wrong checksum or a hop limit below 255 is an
//     error, never a claim.
//   - What the machine itself sends is no rival.
//   - The package sends when it is told to and only then. A process that was
//     stopped between the decision and the system call would send late: package
//     gate holds such a frame back in the kernel.
//
// Schedule and the codecs are pure. Speaker is the shell: two packet sockets on
// one interface, with a filter in the kernel, so that traffic which concerns
// none of the watched addresses does not wake the process.
package announce

// Package caller is a client of an address that several machines of a segment
// hold in turn: what it asks, and who answers.
//
// Guarantees:
//
//   - A question is a datagram with a number, sent once a millisecond; the
//     answer carries the number of the machine that gave it. An outage is
//     counted from question to question, at most 20 ms for each step, so that a
//     client that does not come to ask, or an answer that is read late, is no
//     outage. Stood says for how long the client asked nothing: an outage near
//     that proves nothing.
//   - Who has the address is also asked by ARP, of all machines at once, every
//     5 ms, by a station that is not the client: two that answer are two
//     holders, whatever the client's kernel believes, and no answer mends that.
//   - What the client's kernel believes can be read (Neighbor): a stale entry is
//     an outage that begins with the next packet.
//
// It stands under test because it speaks ARP with the codec of package announce,
// which package lab may not import.
package caller

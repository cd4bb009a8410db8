// Package ask is what the peers of one address say to each other over UDP: the
// holder's question whether they reach the API, and the answer.
//
// Guarantees:
//
//   - Nothing is read out of a datagram before its HMAC-SHA256 (cut to 128 bits)
//     has been checked with the group's key. It covers every byte, the group's
//     full name, and who speaks to whom.
//   - An answer is never longer than its question, and nothing that fails the
//     check is answered: the port amplifies nothing.
//   - An answer repeats its question's nonce, which no other question has: a
//     recorded answer is worth nothing later.
//   - A datagram is one message of at most MaxLength bytes; anything longer,
//     shorter or with bytes left over is refused with a reason.
//
// Not promised: secrecy. Names, turns and flags travel in the clear. And whoever
// has the key can speak for every peer.
package ask

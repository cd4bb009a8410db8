// Package rest keeps an object behind an HTTP URL, by GET and conditional PUT
// (RFC 9110, sections 13.1.1 and 13.1.2).
//
// Guarantees, beside those of package store:
//
//   - The server is always verified. Without TLS only this machine's own
//     loopback is spoken to.
//   - No redirect is followed and no proxy of the environment used: whoever stands
//     there answers, or nobody does.
//   - A request is signed or given its credentials at the moment it is sent, from
//     files as they are then. A file that vanished changes nothing.
//   - A connection that died while it was kept costs a read a third of its time, not all.
//   - Answers are bounded. One without a strong ETag is ErrUnfit: a weak one says
//     that two contents may share it.
//   - Of a PUT without answer only that one is known not to have been made for
//     which no connection came about; any other is ErrUnknown, and so is an answer of
//     5xx, which a proxy may have given.
package rest

// Package creds makes TLS configurations from files and follows the files.
//
// Guarantees:
//
//   - A new certificate, key or CA takes effect at the first handshake more
//     than a second after it was written, without a restart, on connections of
//     both directions. A handshake that fails to verify its peer looks at the
//     files at once and tries again with what it finds.
//   - A half-written, mismatched or vanished file changes nothing: the last
//     good set stays in force, and Source.Err says what is wrong with the new
//     one. Cert and key are only ever replaced together.
//   - The peer is always verified, name and chain. A client that has no name
//     to verify (it dialled an address and was given none) refuses.
//   - The own certificate is presented even when the local clock says it has
//     expired: a peer with the right clock decides. Source.Check tells people.
//   - Connections that stand are not cut; a dropped CA ends no session.
//
// Nothing runs in the background: files are looked at during handshakes.
package creds

// Package haproxy reads the TCP sections of a simple haproxy.cfg and writes
// the settings of the balancer that do the same.
//
// Guarantees:
//
//   - What was read is carried over or noted: each directive that has no
//     equal here gives a note with its line and the reason, and so does a
//     value that had to be changed. Only what the balancer does anyway
//     (keepalive, redispatch, splicing) passes in silence.
//   - Nothing is carried over half: a listener that terminates TLS before
//     servers that do not speak it, or a server under a name that would have
//     to be looked up, is left out and noted.
//   - Verification is never weakened to match: "verify none" becomes a CA
//     file, with a note.
//   - What comes out is accepted by the balancer's own strict reader; values
//     are brought into its bounds. The same text gives the same result.
//   - A text that HAProxy would not parse either is an error of one line with
//     the position. Environment variables are not expanded.
//
// The manual followed is HAProxy 2.6's configuration.txt, with the default
// values that stand there.
package haproxy

// Package server is a small arbiter for a cheap third machine: objects in one
// directory, by HTTP with conditional PUT.
//
// Guarantees:
//
//   - A change that was acknowledged is on the disk: file, rename and directory
//     are synced first. Killed at any moment, it goes on with the old object or the
//     new one, whole; the next start syncs what it finds before it serves it.
//   - Of any number of changes to one version exactly one succeeds. A version
//     is random and never comes again, not even after a backup was restored.
//   - A full disk answers 507 and keeps the old object. A directory that cannot be
//     synced ends all answers until a restart: what was read and what a power loss
//     leaves might differ.
//   - A file that was damaged is never served, and never taken for absent.
//   - Without TLS, or without a token or client certificates, it listens on
//     loopback only.
//   - One process has the directory; another is refused.
//   - Memory, connections, bodies and times are bounded, whatever comes, and
//     no address has more than its share of connections.
//
// The clock is not used for any of this.
package server

// Package etcd keeps the pair's record in a key of another etcd, by transactions on
// the key's modification revision.
//
// Guarantees, beside those of package store:
//
//   - One member is asked at a time. A read that fails goes on to the next within its
//     deadline; a write is sent to one member, once.
//   - Reads are linearizable: a member that is cut off does not answer them.
//   - A revision that came again, after a backup was restored, does not let a change
//     through to other content: the content is compared as well.
//   - Passwords and certificates are read again when they are refused or have changed.
package etcd

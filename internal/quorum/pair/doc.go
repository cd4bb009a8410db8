// Package pair is for two etcd members without a third.
//
// Guarantees:
//
//   - Of the commands here only `wal edit` changes anything, and only the log of a
//     stopped member.
//   - No acknowledged write is lost by it; package wal says why.
//   - It asks no arbiter. Who runs it by hand says with --fenced that the other
//     member is stopped for good, and is alone responsible for that.
//
// docs/guide/pair.md is for users, docs/design/pair.md has the argument.
package pair

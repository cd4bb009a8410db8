// Package wal makes a stopped etcd member the only one of its cluster without
// dropping a byte of its log.
//
// A member that has lost its peer cannot know which of the last entries of its
// log were acknowledged: it learns of a commit with the leader's next message.
// etcd's own way out, --force-new-cluster, drops them all. Here they are all
// kept: to the end of the log is appended, in the next term, the removal of every other
// member, and the promise that all of it is committed.
//
// # Guarantees
//
// Nothing acknowledged is lost: in a cluster of two voters an entry is
// acknowledged once both have synced it, so it stands in the survivor's log. A
// directory where that does not follow is refused: a learner's, one of more than
// two voters, one that ends before an entry that is known to have been committed.
//
// After a crash at any moment, of the edit or of the machine: the directory is as
// it was, or edited, or the edit run again completes it. Nothing before the end
// of the log is ever written to; what is behind it is copied first.
//
// A running etcd is never edited, and one that is started meanwhile waits or
// fails: both of etcd's own locks are held throughout. Files that are made belong
// to the owner of the directory.
//
// Damage is refused. Of what cannot be read, only the end of the last segment is
// cut off, and only where a write that a power loss cut short explains it and
// nothing behind it tells of a commit. etcd itself cuts off more.
//
// It does not decide who may survive: two members edited apart are two clusters.
// That is the arbiter's part, before every edit.
//
// docs/design/pair.md has the argument in full.
//
// # Rooms
//
// message.go and frame.go are the format; segment.go holds the files, tear.go
// judges their end, scan.go and log.go read them; backend.go (over btree.go),
// snapfile.go and membership.go find out who the members are; plan.go decides, purely; journal.go
// and edit.go act.
package wal

// Package disk makes the disk of chosen programs slow, and of nobody else.
//
// Guarantees:
//
//   - Only fsync(2) and fdatasync(2) wait, and only those of programs that were
//     started through [Disk.Watch]. Reads, writes and every other program of the
//     machine are as fast as before. Nothing is lost: each call is made by the
//     kernel itself, when its time has come.
//   - A delay is in force for every call that arrives from then on. One that is
//     shortened or taken back lets go at once of what has waited long enough.
//   - A program is held up by this process alone. When it dies the calls fail with
//     ENOSYS (seccomp_unotify(2)), which a database takes for a broken disk and
//     ends; so programs must not outlive it.
//
// The kernel tells of the calls by seccomp's user notification: a filter on the
// thread that starts the programs, which they inherit through fork and exec. It
// needs Linux 5.19 for a wait that no signal restarts, and root.
package disk

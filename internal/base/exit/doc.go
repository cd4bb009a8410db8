// Package exit gives every command the same ending: one line on stderr and an
// exit code a script can branch on.
//
// Guarantees:
//
//   - 0 means good, 1 means a check or a drill failed, 2 means usage or could
//     not tell. An error that names no code is 2: a command that broke has not
//     shown that the thing it looked at is bad.
//   - A failure prints exactly one line, "holdfast: …", never a usage dump and
//     never a stack trace.
//   - SIGINT and SIGTERM cancel the context. A second signal of either kind
//     ends the process at once, so that a stuck undo can be abandoned.
//   - context.Canceled after such a signal prints nothing and exits 2: an
//     interrupted drill has told nothing. An agent that was asked to stop and
//     did returns nil, hence 0.
//
// A command returns With(1, err) when it looked and found the thing bad, and a
// plain error for everything else. A main is:
//
//	func main() { os.Exit(exit.Run(context.Background(), command())) }
package exit

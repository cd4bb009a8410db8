// Package daemon is what programs have in common that run until they are told to
// stop: the command that runs one, the command that asks it for its status, and a
// start that waits for what is not there yet.
//
// Guarantees:
//
//   - A mistake in the settings ends a program before it has done anything. What
//     may pass by itself does not: a certificate that is not there yet, a port
//     that is taken. It is said once, and tried again.
//   - Whoever asks a program that has not started yet is told what it waits for,
//     by /readyz and by /status alike.
//   - A status is printed for people, or as one JSON document with --json. The
//     exit code is that of the verdict on it (package exit).
//   - Nothing of the environment, such as a proxy, stands between a machine and
//     its own program, and no redirect is followed.
package daemon

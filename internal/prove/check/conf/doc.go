// Package conf reads the settings of programs that stand between a client and the
// API, as far as an audit needs them: haproxy.cfg, nginx.conf, keepalived.conf,
// frr.conf, files of assignments, and files of one statement a line.
//
// Guarantees:
//
//   - Every statement keeps the number of its line.
//   - Nothing is refused: what a program would not start with is read as far as it
//     can be. Whether a file is valid is for its own program to say.
//   - Time and memory are linear in the size of the file; nesting is bounded.
//
// All of them give [Block]: a statement with its words, and those below it.
package conf

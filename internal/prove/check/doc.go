// Package check is `holdfast check`: it finds the single points of failure that
// are visible beforehand to somebody who knows where to look.
//
// Guarantees:
//
//   - It changes nothing, in a cluster or on a node, and never reads a Secret.
//   - A rule that lacks its inputs is not evaluated, with the reason; it never
//     counts as passed.
//   - What a finding predicts is computed by the drills' own code (package scenario)
//     from the timers found, and names the drill that proves it.
//   - Whatever it is given, it ends: with 0 (nothing found that counts), 1 (something
//     was), or 2 (part of what was given could not be read, which is named).
//
// Package fact says what is known of a cluster, source reads it, rule says what a
// rule is, rules has them, audit evaluates and format prints.
package check

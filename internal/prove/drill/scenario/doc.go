// Package scenario describes drills: which network, which faults, which paths
// a client walks, and what those clients are allowed to notice.
//
// Guarantees:
//
//   - A scenario is data. Nothing here opens a socket, reads a clock or starts
//     a process; a scenario can be parsed, resolved and planned on any machine.
//   - Parsing is strict. An unknown key, a key given twice, a site, cluster or
//     window that does not exist is an error of one line that names the field,
//     the value and the remedy. A drill never runs on a misread scenario.
//   - Every allowed outage is derived from timers ([Timers.Window]) and carries
//     the derivation in words, so that a verdict can be argued with.
//
// [Parse] reads YAML, [Load] finds an embedded scenario by name or a file by
// path, and [Scenario.Case] resolves one variant into a [Case], the complete
// and self-contained input of the engine and of the judge. [Sample] is a fully
// commented scenario that lists every key.
package scenario

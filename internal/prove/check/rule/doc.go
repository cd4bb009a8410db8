// Package rule says what a rule of `holdfast check` is and what it finds.
//
// Guarantees:
//
//   - A rule is a pure function of facts. It names the facts it needs; the audit
//     does not call it without them, so that it cannot pass for lack of input.
//   - An effect that a finding predicts is a window of package scenario, which the
//     drills are judged by. There is no other way to make an [Effect].
//   - Identifiers are for good: HF-GROUP-NNN, never used again for something else,
//     since suppressions and dashboards are keyed by them.
package rule

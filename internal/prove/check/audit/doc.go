// Package audit evaluates rules over facts and says what came of it.
//
// Guarantees:
//
//   - Pure: no clock, file or network. The same facts, rules, options and time give
//     the same report, in the same order.
//   - A rule without the facts it needs is not evaluated, with the reason; it is
//     never counted as passed. A rule that breaks is a problem, named, and the
//     others are evaluated all the same.
//   - What is not told apart is not hidden: suppressed and known findings stay in
//     the report, marked; a suppression that has expired suppresses nothing and is
//     named, and so is one that fits nothing. An annotation suppresses findings at its
//     own object, and a Node's those in that machine's files, and nothing else.
//   - [Report.Code] is 2 where something given could not be read or nothing could be
//     evaluated, 1 where a finding that counts is at least as bad as asked for, and 0.
//
// A [Report] is what `--json` prints; its schema is docs/reference/check.schema.json.
package audit

// Package format prints the report of an audit: text, JSON, SARIF 2.1.0, JUnit and
// Markdown.
//
// Guarantees:
//
//   - The same report gives the same bytes; golden files hold each format.
//   - Whatever a cluster's objects are called, the output is valid: no control
//     character, escape sequence or broken table comes through.
//   - SARIF results have a file and a line that exist in what was given, and a
//     fingerprint that does not change from run to run.
//   - JUnit cannot be green by accident: what could not be read is an error, and a
//     rule that was not evaluated is skipped.
package format

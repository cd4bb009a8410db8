// Package rules gathers the rules of all groups.
//
// Guarantees:
//
//   - Identifiers differ, and every rule is whole ([rule.Rule.Validate]); a test
//     holds both, and that each fires on a broken example and is silent on its
//     healthy twin (testdata/rules of package check).
package rules

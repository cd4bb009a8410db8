// Package monitoring tests what stands under deploy/prometheus and deploy/grafana
// with Prometheus' own parser and engine.
//
// Guarantees:
//
//   - Every rule is one that Prometheus loads, and every expression of a dashboard one
//     that it parses.
//   - Every metric that an expression names is made by the code of this repository, or by
//     a rule, and has the labels that it is asked for.
//   - Every alert leads to a section of a guide that is there, and stands in the table
//     of docs/guide/monitoring.md.
//   - Every alert is tested: what fires it, and what must not. The tests are in
//     promtool's format, so that `promtool test rules` runs them as well.
//
// The dashboard is made by this package: go test -update writes it anew.
//
// It is a module of its own because Prometheus brings its dependencies along.
package monitoring

// Package guard holds the tests that keep the repository in the shape that
// docs/architecture.md promises: who may import whom, what a package must say
// about itself, how long files and functions may grow, which words stay out,
// and that the links of the documents lead somewhere.
//
// Each rule is a function from a file tree to complaints, tested on a planted
// tree beside the real one, so that a rule that sees nothing is noticed.
package guard

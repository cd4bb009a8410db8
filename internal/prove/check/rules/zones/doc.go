// Package zones has the rules about endpoints: who writes them, which zone they are
// in, and whether the datapath keeps to it.
//
// Guarantees: as of package rule.
package zones

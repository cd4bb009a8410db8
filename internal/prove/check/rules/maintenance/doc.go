// Package maintenance has the rules about work on nodes, by people and by timers.
//
// Guarantees: as of package rule.
package maintenance

// Package vip has the rules about addresses that move between machines.
//
// Guarantees: as of package rule.
package vip

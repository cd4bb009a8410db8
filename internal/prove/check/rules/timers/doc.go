// Package timers has the rules about failure detectors that stand in each other's
// way: the shorter one must be the one that is nearer to the fault.
//
// Guarantees: as of package rule. A timer that is not set is judged by the default
// of the version found, and not at all where that is not known.
package timers

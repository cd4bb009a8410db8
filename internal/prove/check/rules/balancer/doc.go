// Package balancer has the rules about what stands between clients and apiservers.
//
// Guarantees: as of package rule; a section of a balancer's settings is judged only
// where its servers are apiservers, by their port or their name.
package balancer

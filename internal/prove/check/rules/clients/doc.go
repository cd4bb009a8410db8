// Package clients has the rules about who goes around the address of the API.
//
// Guarantees: as of package rule; of kubeconfigs only servers are looked at.
package clients

// Package address has the rules about the one address by which the API is reached.
//
// Guarantees: as of package rule; each rule is silent where the cluster has one
// control-plane node only, for which HF-API-007 speaks.
package address

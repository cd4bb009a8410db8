// Package etcd has the rules about where etcd's members are and how they fare.
//
// Guarantees: as of package rule; a member whose place is not known is never taken
// for one in another zone.
package etcd

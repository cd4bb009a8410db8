// Package services gives Services of type LoadBalancer their addresses, and says
// which machines may answer for each.
//
// Guarantees:
//
//   - An address is given to one Service, or to several that share it on
//     different ports. Everything is decided from what stands in the Services, so
//     a restart or another allocator comes to the same end.
//   - An address that a Service has is not moved unless it asks for another that
//     it can have, its families change, or an older Service has the same.
//     Settings that no longer have the address are no reason.
//   - A wish that cannot be met is said on the Service, with the remedy, and
//     changes nothing. It is said once, and again when it becomes another.
//   - Of several allocators the one that holds a Lease writes, as a change of the
//     version that it decided on, and only once it has read all Services anew since
//     it has the Lease. Should two write at once all the same, the younger Service
//     is given another address.
//   - A Service of another class is never touched; nor is an address given that it
//     has, or that stands in the externalIPs of any.
//   - In a partition, or without the API, nothing is taken away: a machine keeps
//     what it knew last. What is held is decided by package lease.
//   - With policy Local only machines with a ready endpoint may answer; while there
//     is none, whoever answered last goes on.
//
// No clock is used here but for waiting.
//
// # Rooms
//
// object.go is what is read of the API; span.go and pool.go are the settings of
// pools; wish.go what a Service asks for; decide.go who gets what; elect.go who
// may answer for what. watch.go follows the API, allocator.go writes, member.go
// has the machines find each other.
package services

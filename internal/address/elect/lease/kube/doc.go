// Package kube keeps the record of an address in a Lease of
// coordination.k8s.io/v1.
//
// Guarantees:
//
//   - A write is for exactly the version that it replaces (compare-and-swap on
//     resourceVersion); one that met another reports lease.ErrConflict.
//   - A read is of a quorum of etcd: a get without resourceVersion.
//   - What is decided by stands in one annotation. The fields of the Lease repeat it
//     for people and for other programs, and a Lease whose holder is not the one of
//     the annotation belongs to another program: it is shown as foreign, and never
//     written.
//   - Labels and annotations that are not ours stay as they are.
//
// The rights it needs, on leases of coordination.k8s.io: create, and get, list,
// watch and patch of the one name.
package kube

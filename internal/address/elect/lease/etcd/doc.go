// Package etcd keeps the record of an address in a key of etcd.
//
// Guarantees:
//
//   - A write is a transaction on the revision that it replaces; one that met
//     another reports lease.ErrConflict. It is sent once.
//   - A read is linearizable.
//   - The key belongs to no lease of etcd: the record does not vanish, it lapses,
//     and everybody measures that by itself.
//   - A watch that etcd ends, as of a member without a leader, is opened anew.
package etcd

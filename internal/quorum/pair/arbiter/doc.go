// Package arbiter is the one record that decides which of two etcd members may
// serve without the other, and the rules by which it is read and replaced.
//
// # Guarantees
//
// A change is a compare-and-swap: it names the version it replaces, and of any
// number of changes to one version exactly one succeeds. A store that does not
// keep to that is found by Race before anything rests on it, and refused.
//
// Change knows how it ended, or says that it does not. An answer that was lost
// is replaced by a read: the nonce in the record tells whose it is.
//
// A Client never goes back: a record of a generation lower than one it has seen
// is ErrRestored, whatever the store says, and so is a record of a generation it
// knows under another nonce.
//
// No clock decides anything. The time in a record is for people.
//
// # Rooms
//
// record.go is the record and its codec, client.go the rules, race.go the
// self-test; package store says what a back end has to do. The back ends have packages of
// their own (rest, s3, etcd, configmap); open.go chooses one by its URL. Package server
// is an arbiter itself, which rest speaks to.
package arbiter

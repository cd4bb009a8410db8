// Package robustness lets etcd's own robustness tests judge a pair of two etcd
// members: its random traffic runs through both while they are killed, cut apart,
// taken over and joined again, and afterwards its model says whether what the clients
// were told can have happened in one etcd.
//
// # What a run that passes has shown
//
// Every request that was answered fits one order of all requests
// (porcupine over etcd's model), every watch kept etcd's guarantees, every
// acknowledged write stands in the log at the revision that was acknowledged, and
// both members have the same keys in the end. A run with too few requests of any
// kind fails: what did nothing proves nothing. The controls, which take over with
// --force-new-cluster or change a history by hand, must be found illegal.
//
// # Replaying
//
// The versions, the faults and their moments come from the seed, which each run
// prints; HOLDFAST_ROBUST_SEED repeats one. What the 16 clients do in between is
// etcd's choice and differs. A run that fails leaves histories, data directories and logs
// behind and names the place.
//
// It is a module of its own because etcd's tests bring their dependencies along.
package robustness

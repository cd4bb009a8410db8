// Package collect reads what rules need from a live cluster, into a bundle or
// straight into facts.
//
// Guarantees:
//
//   - It only reads: lists and gets of the resources in [Resources] and of the
//     ConfigMaps in [ConfigMaps], and nothing else; deploy/check-role.yaml grants
//     exactly that. Secrets are never asked for.
//   - What it keeps is without credentials: values of variables and arguments that
//     look like one are taken out, managed fields too.
//   - What it may not or cannot read becomes unknown, with the reason; a group of
//     resources that the cluster does not have becomes absent. The rest is read all
//     the same.
//   - Addresses are asked over TLS for /readyz, without credentials, once each, and
//     within [ProbeTimeout]: certificate, names and answer are recorded.
//   - Name servers are asked for the names by which the API is reached, once each and
//     within [LookupTimeout]; nothing else is looked up.
//   - etcd's members are asked only by [EtcdAccess], which a machine has or a person
//     gives: lists of members and alarms, status, one linearizable read of a key that
//     need not exist, and metrics. Nothing is written, and no credential is kept.
//   - It ends: with its context, and after 250,000 objects of a kind.
package collect

// Package source reads what is known about a cluster from files into facts.
//
// Guarantees:
//
//   - Reading changes nothing and runs nothing. No Secret is read, and credentials
//     in kubeconfigs are dropped while decoding.
//   - Whatever is given, memory and time are bounded ([Limits]): entries that leave
//     the directory, links, archives that unpack to more than the limit, files of a
//     gigabyte, aliases that expand without end, lists nested without end. What
//     exceeds a bound is named as a Problem with its place, the facts it concerns
//     become Unknown, and the rest is read all the same.
//   - A kind of which something could not be read is Unknown, never half known.
//
// All back ends hand a tree of files to the same decoder, so that a bundle, the
// directory it unpacks to and a test's directory mean the same:
//
//	bundle.yaml                    when, from which server, what could not be read
//	objects/pods.ndjson, x.yaml    objects of the API: YAML, JSON, lists or one a line
//	nodes/NODE/files/etc/hosts     a file of a node, by its absolute path
//	nodes/NODE/commands/NAME       the output of a command there
//	probes.yaml etcd.yaml          recorded handshakes; the status of etcd's members
//	lookups.yaml                   what name servers answered for names of the API
//	*/etcd_info/*.json             a must-gather's output of etcdctl
//	kubeconfigs/NAME               kubeconfigs of clients
//	pipelines/NAME, .gitlab-ci.yml settings of CI, as text
//
// A directory of manifests has only files of the second kind, under any names.
package source

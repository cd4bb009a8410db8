// Package seed makes the mistake of a rule on a running cluster, and what is in order.
//
// Guarantees:
//
//   - What rules look at is real as far as a lab can make it so: objects stand in a
//     kube-apiserver, certificates are shown by TLS servers, etcd's members and FRR
//     answer for themselves, files are those of a machine. [Seeding.Means] says by
//     what means each was made.
//   - The facts of a seeding are those of the rule's twin among recorded examples.
//     Its times are moved, so that what ends in three days ends in three days.
//   - The audit is made by the program itself, from outside, with the rights of
//     deploy/check-role.yaml and no others.
//   - After an audit the lab is as it was before: the next one finds nothing of it.
//   - Everything is in namespaces of its own. Nothing of it outlives the lab.
//
// Usage:
//
//	l, err := seed.Start(ctx, seed.Options{Program: …, Role: …}, log)
//	s, err := seed.Read(files, "HF-CERT-001", "broken", recorded, time.Now())
//	report, err := l.Audit(ctx, s)
package seed

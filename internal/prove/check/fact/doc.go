// Package fact holds what is known about a cluster: typed objects, recorded
// handshakes, files of nodes, each with where it was read.
//
// Guarantees:
//
//   - Nothing here reads anything. A [Facts] is filled by package source and is
//     only looked at afterwards, by any number of goroutines.
//   - What is not known is never taken for what is not there. A kind of fact is
//     [Present], [Absent] (it was looked for, and there is none) or [Unknown] (it
//     could not be read, with the reason), and starts as Unknown.
//   - Every object says where it was read, as a file and a line that exist in what
//     was given, so that a finding can be looked at and shown by other tools.
//
// Rules ask for sets ([Facts.Nodes]), for what is derived from them
// ([Facts.Components], [Facts.Zone], [Facts.ControlPlane]) and for files
// ([Facts.FilesAt]). A rule that finds in mid-flight that it lacks something
// returns [Lacking]; one that has nothing to judge returns [NotApplicable].
package fact

// Package stack holds the failure detectors of a cluster in the order in which a
// fault passes them on its way to a client.
//
// Guarantees:
//
//   - It is a pure function of facts: the groups of rules read the settings, and
//     the windows are those that the drills are judged by.
//   - A path is listed only where its detectors were found. What none covers is told
//     by the rules that fire, and what could not be looked at by those that were not
//     evaluated; neither is taken for covered.
package stack

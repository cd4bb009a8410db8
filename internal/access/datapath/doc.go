// Package datapath knows which values of a Service's trafficDistribution keep
// traffic in its zone, by what carries Service traffic in a cluster.
//
// Guarantees:
//
//   - A value that is not known to be honoured is never reported as honoured: a
//     datapath that does not understand the value ignores it without a word.
//   - What could not be found out is said to be unknown, and then PreferClose is
//     preferred: every datapath that routes by zone at all understands it.
//
// What is known: kube-proxy follows the hints that the control plane writes for
// PreferClose (1.30 on) and PreferSameZone (1.34 on). Cilium up to 1.19
// understands PreferClose only; from 1.20 on it is taken to understand both.
package datapath

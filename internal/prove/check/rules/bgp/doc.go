// Package bgp has the rules about addresses that are announced to routers.
//
// Guarantees: as of package rule. Speakers are found in frr.conf of nodes and
// routers, in MetalLB's objects and in kube-vip's settings; each is judged by the
// timers that it has itself, not those a router may have lowered them to.
package bgp

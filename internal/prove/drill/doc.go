// Package drill breaks a network on purpose and says what clients noticed.
//
// Guarantees:
//
//   - A fault that was not measured to be in force makes the run inconclusive,
//     never passed; so do a cluster that was not steady before, and a prober
//     that could not keep its schedule.
//   - Every run has a lab of its own, and nothing outlives it: after success,
//     failure, SIGINT or SIGKILL no namespace, interface, rule or process is
//     left. Each change is in commands.log before it is made.
//   - The verdict is formed from files. What [Run] reports is what judging the
//     directory again reports.
//   - Clients are separate processes in the network of their site. They share
//     no connection, clock or scheduler with the engine that breaks things.
//
// A run goes through the phases plan (build the lab, force the leaders, start
// agents and probers), baseline, inject, verify, hold, heal and settle, then
// judge. A case may put a kube-apiserver into every site and a balancer in front
// of them on every node; then the run without the agents has balancers too, with
// the timers of what people use. Or it has all of Kubernetes: then clients stand
// in pods, endpoints and Nodes are watched through every apiserver, and the run
// without the agents is what kubeadm makes. Or several machines of a site may hold
// an address: then somebody on their link asks all the time who answers for it, and
// the run without the agents has keepalived on them. Package scenario describes drills,
// package record keeps what a run saw and package judge forms the verdict.
package drill

// Package lab builds sites on one machine and breaks the network between them.
//
// Guarantees:
//
//   - A fault is in force when Cut returns nil: the lab has measured which node
//     reaches which, over UDP and over new and kept TCP connections, and found
//     exactly what was declared. Otherwise Cut returns ErrNotInForce naming
//     the first pair that differs.
//   - Nothing outlives the lab. Namespaces have no name and are held by
//     descriptors of the lab's own process; its children get SIGKILL when it
//     dies. After SIGKILL the kernel takes back namespaces, interfaces, routes
//     and rules. Only files are left, and `holdfast lab down` removes them.
//     Containers end with process 1 of their node (see below), their mounts
//     with its mount namespace; of them, empty cgroups are left, too.
//   - Sites are joined by L3 links only. There is no way around a cut through a
//     third site: routes are static.
//   - Labs do not meet. Every lab uses the same addresses in namespaces of its
//     own.
//   - Every change is journalled before it is made.
//   - A kube-apiserver of the lab is as good as its own site's etcd member:
//     unless the spec says otherwise it knows no other, so that a site without
//     quorum has an apiserver that accepts connections and cannot serve.
//   - A node's processes see its name as their hostname, as on machines of
//     their own: apiservers have an identity Lease each.
//   - The router of a site speaks BGP and BFD if it is told to (StartRouter), by
//     FRR as packaged. An address that nodes announce to it is reached from every
//     site with a link to it.
//   - A controller manager or scheduler that ends by itself comes back 10 s
//     later, as a static pod does; what Stop and Kill end stays ended.
//
// A site has a router namespace with a bridge and a namespace per node:
//
//	a1 ──┐                                  ┌── b1
//	     lan (10.77.1.1)                    lan (10.77.2.1)
//	     router a  to-b ────────── to-a  router b
//	        to-c ╲                        ╱ to-c
//	              ╲                      ╱
//	               to-a  router c  to-b
//	                       lan ── c1
//
// With Kubernetes a node is more of a machine: containerd, the kubelet and the
// kube-proxy have a pid namespace, whose process 1 the lab owns, and a mount
// namespace, in which /run, /var/lib and /var/log are empty and the settings
// that a kubelet makes in /proc/sys are made already, so that the host sees
// nothing of it. Pods of all nodes are on one VXLAN overlay with static
// entries, 10.244.N.0/24 each:
//
//	pod ── veth ── node N ── vxlan.1 ═(UDP 4789 over eth0)═ vxlan.1 ── node M …
//
// On 2 cores the nodes of three sites are ready 2 to 4 s after their start and a
// pod 1 to 2 s after its creation. Resident memory of a node: kubelet 78 MB,
// kube-proxy 58, containerd 48, process 1 5; of a pod 25 (shim 14, pause 5, its
// program 6).
//
// A link is a veth pair when it has no delay (rate by tbf, loss by nftables).
// A delay is made by netem where the kernel has it, else by a pair of TUN
// devices with package delay between them. Cuts are nftables rules in the
// router of the site that packets leave.
package lab

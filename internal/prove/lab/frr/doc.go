// Package frr runs routing daemons of FRR (zebra, bgpd, bfdd, vrrpd) in network
// namespaces, for labs and for tests that need a real router.
//
// Guarantees:
//
//   - A daemon gets SIGKILL when the process dies that started it, and leaves
//     nothing but what is in its directory: it runs as root all its life, since
//     a change of user would cancel that signal (prctl(2), PR_SET_PDEATHSIG),
//     and has an empty /var/tmp of its own for the crash logs that FRR begins
//     there.
//   - Directories may have any length of name: sockets are named relative to
//     them, where a path to a unix socket has room for 107 bytes.
//
// Usage:
//
//	config := frr.Config{AS: 65001, RouterID: …, Neighbors: …}
//	cmd, err := frr.Command(dir, "bgpd", config.BGPD())
//	err = spawner.Start(cmd) // package space
//	err = frr.Console{Dir: dir}.JSON(ctx, "bgpd", "show bgp summary json", &v)
package frr

// Package space makes network namespaces that have no name and runs code and
// processes inside them.
//
// Guarantees:
//
//   - A namespace is held by one open file descriptor of this process and by
//     nothing on disk. When the process ends, however it ends, the kernel
//     takes back the namespace with every interface, route, TUN device and
//     nftables rule in it.
//   - Code enters a namespace on an OS thread of its own that never returns to
//     the Go scheduler: no unrelated goroutine ever runs in a foreign
//     namespace.
//   - A process started by a Spawner gets SIGKILL when this process dies, or,
//     with NewSpawnerWith, when process 1 of its pid namespace does, and stands
//     in a process group of its own.
//   - A namespace is told from another by the kernel's cookie, not only by its
//     inode, because the kernel hands out the inode of a dead namespace again.
//
// Only the network namespace and, where one is asked for, the hostname are
// changed, unless a Spawner is told to join the pids and mounts of a process.
// Cgroups always stay those of the host, unlike with `ip netns exec`, which
// remounts /sys and hides the cgroup tree from containers.
package space

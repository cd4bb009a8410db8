// Package supervise starts and stops the etcd of a pair's member, and nobody
// else does meanwhile.
//
// # Guarantees
//
// etcd never ends because the agent does. A child has its own session and no
// pipe to the agent; the next agent finds it again and knows it by its start
// time, this boot and a token in its environment, never by its number alone.
// For that a unit of the agent needs KillMode=process: systemd ends everything
// in the group of a stopped unit otherwise.
//
// "Stopped" means that every process of this etcd is gone and that nothing will
// start one before Start. What may still be coming up is Starting.
//
// systemd starts a unit of etcd only for the agent, at boot too; unit.go says
// how. That stays so between two agents, until ReleaseUnit.
//
// A static pod cannot be had so: the kubelet starts it with the machine, before
// the agent, which then finds it running. Once stopped it stays so, as its manifest is away.
//
// Nothing is started twice: another etcd on the same data directory, known by
// etcd's own lock, is a Refusal. Nothing is restarted here; who calls decides.
//
// What etcd was told is read as etcd reads it: the last of repeated flags
// counts, the environment where no flag is given, and with a configuration file
// only that. What cannot be told for certain is refused in one line, and so is
// what takes the ground from under the pair: --force-new-cluster,
// --unsafe-no-fsync, discovery, an etcd that belongs to another system.
//
// For a member that joins, etcd is started with the cluster as given; what the
// user wrote stays as it is.
//
// Data is moved aside by rename alone, within its file system. A move that was
// cut short is completed before etcd is started again. Only what was moved aside
// here is ever removed, and only once told.
//
// # Rooms
//
// supervisor.go is what an agent needs to know. arguments.go, file.go and
// describe.go read what etcd was told; child.go, over record.go and process.go,
// runs it as a child; unit.go, over unitfacts.go and control.go, as a systemd
// unit; staticpod.go, over manifest.go, as a static pod of a kubelet; lock.go and ready.go look before a start; aside.go moves data.
package supervise

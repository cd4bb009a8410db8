package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// page writes the figures as docs/numbers.md.
func page(rows []Row) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Numbers

Measured by `+"`make bench`"+` and `+"`make soak`"+` on %s; this page is written by
`+"`go run ./test/bench --doc docs/numbers.md`"+` from `+"`bench.json`"+`. A bar is the most a
figure may be, or the least where it says ≥. Peers are measured in the same run. Where a bar is missed, the
figure stands here all the same.

| figure | ours | bar | holds | peer | ratio | from |
|---|---:|---:|---|---|---:|---|
`, machine())
	for _, r := range rows {
		holds := "yes"
		if !r.Holds {
			holds = "**no**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", r.Name, figure(r.Ours, r.Unit), r.limit(),
			holds, strings.TrimSpace(r.PeerName+" "+figure(r.Peer, r.Unit)), figure(r.Ratio, ""), r.Note)
	}
	b.WriteString(`
What the figures mean:

- *recovery*: from the cut of a–b until every path of every site (put and
  linearizable get, on new and on kept connections) answers for good, the leader
  forced in a. The seed's timers (3 failures, 10 answers, 15 s, 2 min) are the
  peer; without agents it never happens.
- *gap elsewhere*: the longest outage of new connections in a and c.
- *inflight hit*: requests in flight at the move that failed or took longer than
  a second. etcd lets writes that were on their way through a follower hang until
  its request timeout of 7 s; a move cannot spare them.
- *private memory* is RssAnon + RssShmem.

What the figures of the balancer (` + "`balance-*`" + `) mean. Three backends, the balancer
and the clients share the machine, in a network namespace of their own; HAProxy
runs with the settings recommended in front of apiservers (TLS checks of
` + "`/readyz`" + ` every 2 s, 500 ms after a failure, fall 2, rise 2, connect timeout 1 s,
redispatch on each retry, sessions shut down with the server, two threads). Only
ratios say something about other machines.

- *killed*: new TLS connections with one request each, 200 a second; failed are
  those that no byte of a backend had reached when the backend died. A *hung*
  backend accepts for 100 ms without a word before it is killed.
- *calm*: verdicts about backends that are well, and kept connections lost.
- *frozen* (SIGSTOP), *blackholed* (packets dropped), *unready* (` + "`/readyz`" + ` 500 with
  the listener up), each of the backend that was busiest: *moved* is when the last
  new connection began that failed, reached the victim, or took longer than 400 ms while connections past the
  balancer took less than 100 ms; *reset* is when the last idle connection to the
  victim ended; *failed* are new connections begun later than 1.5 s after the
  fault. A dash: not while anybody watched. The timers of the seed and of the
  anchors drive our data path, which saves new connections from a silent backend
  at the cost of half a second each.
- *down*: all backends killed; *refused* is the longest time until a client knew,
  *served* the time from the first good ` + "`/readyz`" + ` to the first answer through the
  balancer.
- *short*: connect, 200 bytes there and back, close; *requests*: the same over
  kept connections; *bulk*: one or four streams from the backends. The bar is the
  peer's figure. *cpu-per-gb* is processor time of the balancer alone.
- *latency*: what the balancer adds to the 99th percentile of requests at an even
  pace.
- *rss*: memory of the process; what the kernel holds for its sockets is not in it.
- *reload*, *upgrade*: connections that failed, new and kept, while the settings
  or the process changed. HAProxy hands its listeners over (` + "`-x`, `-sf`" + `) for both.
` + heldWords + `
What the figures of agents at rest mean (` + "`slices-rest-*`, `zonal-rest-*`" + `). Three
zones with a kube-apiserver each and delays between them, an agent with its
defaults and the rights of the printed manifest beside each apiserver; rest begins
when nothing but Leases has been written for 15 s.

- *writes*: requests to create, update, patch or delete anything, of the node that
  made most. The apiservers' audit logs count them by the agents' user, refused
  ones too. Of three replicas of ` + "`zonal`" + ` one acts, and renews its Lease 5 s after each renewal or a
  little later.
- *rss* is VmRSS, in which what is mapped of the program counts.
`)
	return b.String()
}

// machine says where the figures were taken.
func machine() string {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	major, _, _ := strings.Cut(string(kernel), "-")
	return fmt.Sprintf("a shared virtual machine with %d cores, Linux %s, %s, %s",
		runtime.NumCPU(), strings.TrimSpace(major), runtime.Version(), time.Now().UTC().Format("January 2006"))
}

// heldWords say what the figures of held addresses mean.
const heldWords = `
What the figures of pairs mean (` + "`pair-*`" + `). Two members of etcd 3.6 on loopback, an arbiter of our own,
default timers; agent and etcd of a site are ended with SIGKILL at once, in turn where the leader is and where it is not.

- *writable*: from the fault to the first write at the survivor. *leader-survives*: the former leader's site has a head start.
- *edit*: the surgery on the log, with all syncs; *start to write*: from there to the first write, most of it etcd's own election.
- *paired again*: from the return of the lost site until both serve and the record says paired. Now and then it takes
  7 s more: etcd opens its client port once the leader has taken its name, and tries that again after 7 s.
- *rss*, *cpu*: of one agent beside its etcd, over 40 s from the forming of the pair on.

What the figures of held addresses mean (` + "`vip-*`" + `). Machines, each a network namespace,
on one Ethernet segment; the first holds the address, the others are its backups, and
a client asks the address by a datagram once a millisecond. Outages are counted from
question to question; a round in which the client itself stood still for 25 ms is done
again. Rounds of those compared take turns. Another station asks all by ARP every 5 ms.
Each runs as it does by default: ours before ordinary processes (SCHED_RR).

- *silent*: no frame of the holder passes the switch, and its carrier stays. The
  priority of the first backup is 200 for all, and all fall silent at the same
  points between two adverts: up to an interval of the outage is a matter of that.
- *lease*: a Lease in a real kube-apiserver with a real etcd. The peer is not a
  product: it is client-go's leader election with the timers of the name, and an
  announcement every 3 s, which is what holders do that are built on it.
- *handover*: SIGTERM, or ` + "`holdfast vip release`" + `.
- *killed*, *stopped*: SIGKILL and SIGSTOP of all processes of the holder, whose
  kernel is well. *gone* is when the address has left its interface, *both* for how
  long two machines answered ARP at once, *continued* the outage when the stopped ones
  go on (SIGCONT). A dash: not while anybody watched.
- *apiserver*: a stand-in with ` + "`/readyz`" + ` over TLS on each machine; until another machine
  answers. The peer's script has the timers of the guides for apiservers.
- *api-cut*: packets between the holder and the API dropped; *api-down*: the API and
  its etcd frozen for all.
- *bgp*: FRR as router with the address from three machines, and FRR on the machines
  as peer.
- *loss*: failures that were none. *together* is the sum of those with adverts and
  those with BFD.
- *pair*: two machines, each a balancer and a holder of the address gated on a ready
  backend behind it; new TLS connections with one request each.
- *stale*: rounds after which the client's kernel believed the wrong hardware address.
`

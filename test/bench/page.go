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

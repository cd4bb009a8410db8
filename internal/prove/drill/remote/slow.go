package remote

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// slowHandle is the major number of the queueing discipline of ours, by which an
// undo tells it from anybody else's.
const slowHandle = "4f46"

// HostSlow is what one host does to its traffic with Peers: what leaves for them is
// delayed and held to a rate, what comes from them is lost in part.
//
// What leaves is told by an nft rule that gives it the class of a queueing discipline
// on the device towards the peer; everything else passes that one unqueued. Loss is
// made where packets arrive: a packet dropped on its way out is an error to the program
// that sent it, which a lost one is not.
type HostSlow struct {
	Peers         []netip.Prefix
	Names         []string
	Delay, Jitter time.Duration
	Loss          float64
	Mbit          uint64
}

func hostSlow(s scenario.Slow, peers []Host) *HostSlow {
	h := &HostSlow{Delay: s.Delay, Jitter: s.Jitter, Loss: s.Loss, Mbit: s.Mbit}
	h.Names, h.Peers = peersOf(peers)
	return h
}

func (s *HostSlow) String() string {
	what := scenario.Slow{Delay: s.Delay, Jitter: s.Jitter, Loss: s.Loss, Mbit: s.Mbit}
	return fmt.Sprintf("%s, with %s", what, strings.Join(s.Names, ", ")) + behind(s.Peers)
}

// queued says whether it takes a queueing discipline; a loss alone does not.
func (s *HostSlow) queued() bool { return s.Delay+s.Jitter > 0 || s.Mbit > 0 }

// leaf is the discipline that holds back what the class gets. netem limits its rate
// itself; without a delay, tbf does not need a kernel with netem. Its burst and its
// wait are those of the lab's links: 4 ms of the rate, and 50 ms of queue.
func (s *HostSlow) leaf() string {
	if s.Delay+s.Jitter == 0 {
		return fmt.Sprintf("tbf rate %dmbit burst %d latency 50ms", s.Mbit, max(s.Mbit*1_000_000/8/250, 15_000))
	}
	leaf := fmt.Sprintf("netem limit 20000 delay %dus", s.Delay.Microseconds())
	if s.Jitter > 0 {
		leaf += fmt.Sprintf(" %dus", s.Jitter.Microseconds())
	}
	if s.Mbit > 0 {
		leaf += fmt.Sprintf(" rate %dmbit", s.Mbit)
	}
	return leaf
}

// queue are the commands that put the discipline on the device $d. The class is as
// fast as htb can count, so that only the leaf holds anything back.
func (s *HostSlow) queue() string {
	return fmt.Sprintf("tc qdisc add dev $d root handle %[1]s: htb && tc class add dev $d parent %[1]s: classid %[1]s:1 htb rate 30gbit quantum 60000 && tc qdisc add dev $d parent %[1]s:1 handle 4f47: %s", slowHandle, s.leaf())
}

// ruleset is the table that sorts the packets.
func (s *HostSlow) ruleset(id int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s%d {\n", tablePrefix, id)
	if s.queued() {
		b.WriteString("\tchain leave {\n\t\ttype filter hook postrouting priority 200; policy accept;\n\t\t" + spare("output") + "\n")
		b.WriteString(eachPeer(s.Peers, "daddr", "counter meta priority set "+slowHandle+":1"))
		b.WriteString("\t}\n")
	}
	if s.Loss > 0 {
		b.WriteString("\tchain arrive {\n\t\ttype filter hook prerouting priority -310; policy accept;\n\t\t" + spare("input") + "\n")
		b.WriteString(eachPeer(s.Peers, "saddr", "counter jump lose"))
		b.WriteString("\t}\n\tchain lose {\n")
		fmt.Fprintf(&b, "\t\tnumgen random mod 100000 < %d counter drop\n\t}\n", max(1, int(s.Loss*100_000+0.5)))
	}
	b.WriteString("}\n")
	return b.String()
}

func (s *HostSlow) tools() []string {
	if !s.queued() {
		return nil
	}
	return []string{"tc", "ip", "awk", "unshare"}
}

// looking asks whether the kernel can do it, in a network of its own that goes with
// the question, and whether the devices are free.
func (s *HostSlow) looking(b *strings.Builder) {
	if !s.queued() {
		return
	}
	lack := "tbf, htb): load sch_htb and sch_tbf, or leave mbit out"
	if s.Delay+s.Jitter > 0 {
		lack = "netem, htb): load sch_netem and sch_htb (their package may be linux-modules-extra or kernel-modules-extra), or give loss and mbit without delay and jitter"
	}
	fmt.Fprintf(b, "d=lo unshare -n sh -c '%s' >/dev/null 2>&1 || p \"the kernel cannot slow packets down (%s\"\n", s.queue(), lack)
	b.WriteString(s.devices())
	b.WriteString(`for d in $devs; do
	q=$(tc qdisc show dev "$d" | awk '$2 != "clsact" && $2 != "ingress" && $3 != "0:" { print $2, $3; exit }')
	[ -z "$q" ] || p "device $d has a queueing discipline that somebody set ($q), which an undo could not bring back; remove it, or drill another host"
done
`)
}

// devices sets $devs to the devices towards the peers. A host may have no way to a
// network behind another one; it must have one to the other itself.
func (s *HostSlow) devices() string {
	var b strings.Builder
	b.WriteString("devs=\nfor a in")
	for _, p := range s.Peers {
		b.WriteString(" " + element(p))
	}
	b.WriteString(`; do
	d=$(ip -o route get "${a%/*}" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
	case "$a:$d" in
	*/*:) continue ;;
	*:|*:lo) echo "problem: no device leads to $a; check the address"; bad=1; continue ;;
	esac
	case " $devs " in *" $d "*) ;; *) devs="$devs $d" ;; esac
done
`)
	return b.String()
}

// do adds the table, then the disciplines.
func (s *HostSlow) do(id int) string {
	text := fmt.Sprintf("nft -f \"$dir/%d.nft\"\n", id)
	if s.queued() {
		text += fmt.Sprintf("for d in $(cat \"$dir/%d.devs\"); do %s || exit 7; done\n", id, s.queue())
	}
	return text
}

// undo removes the disciplines that carry our number, then the table.
func (s *HostSlow) undo(id int) string {
	text := untable(id)
	if s.queued() {
		text = fmt.Sprintf("(for d in $(cat \"$dir/%d.devs\"); do ! tc qdisc show dev \"$d\" 2>/dev/null | grep -q \"^qdisc htb %s: root\" || tc qdisc del dev \"$d\" root || exit 1; done) && { %s; }", id, slowHandle, text)
	}
	return text
}

package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Outcomes that are no windows.
const (
	// Never is that of a path that must stay broken while the fault lasts.
	Never = "never"
	// Half is that of a path that must lose about every second request while the
	// fault lasts, since one of two upstreams is behind it.
	Half = "half"
	// Any is that of a path that is shown and not judged.
	Any = "any"
)

// Timers are the settings from which allowed outages are derived. All but
// Election, Interval and RTT are those of the leader agent and of etcd.
type Timers struct {
	// Election is etcd's election timeout; raft draws each wait from one to
	// two of it (raft.go resetRandomizedElectionTimeout).
	Election time.Duration
	// Certain is the agent's bound from the cut to a link that is surely down:
	// probe interval 500 ms, then a burst.
	Certain time.Duration
	// Settle is the agent's wait before a first move after calm.
	Settle time.Duration
	// Publish is how long a changed row travels to the leader's agent: 200 ms
	// through a member that has a leader, 500 ms on a busy machine.
	Publish time.Duration
	// Quiet is the longest search for a moment of few pending proposals.
	Quiet time.Duration
	// Transfer is MoveLeader itself, 100–205 ms because etcd polls its state
	// every 100 ms (server.go moveLeader).
	Transfer time.Duration
	// Retry is etcd's pause before it asks a new leader for a read index
	// again (server.go readIndexRetryTime).
	Retry time.Duration
	// Interval is the spacing of a path's samples: a recovery shows up to one
	// interval late.
	Interval time.Duration
	// RTT is the longest round trip between two sites; taking a role needs
	// two of them (vote, then the first append).
	RTT time.Duration
	// Period is the longest cycle of a repeated fault.
	Period time.Duration
	// Move and Reset are the balancer's promises for a backend that cannot
	// serve (issue 3): from the fault on, new connections go elsewhere after
	// Move at most, and established ones are reset after Reset.
	Move, Reset time.Duration
	// Reconnect is what a client needs after a reset until it is answered over
	// a connection of its own: three round trips (TCP, TLS 1.3, request) over
	// the longest link, through a balancer that may have to try twice.
	Reconnect time.Duration
	// Serve is how soon after an apiserver is ready a balancer serves from it
	// when none was.
	Serve time.Duration
	// Down is the longest time that a fault keeps processes down, and Start how
	// long an apiserver may take to be ready again on a busy machine; 2 to 4 s
	// were measured on an idle one.
	Down, Start time.Duration
	// EtcdCheck is how long an apiserver waits for etcd before its /readyz
	// fails. It asks once in half of that, and repeats the last answer meanwhile
	// (apiserver/pkg/storage/storagebackend/factory/etcd3.go, newETCD3Check).
	EtcdCheck time.Duration
	// Leave is how soon an apiserver that cannot serve is out of the endpoints of
	// its zone, and Adopt how long the zone may then be without one (issue 4).
	Leave, Adopt time.Duration
	// Sync is how soon kube-proxy has new endpoints in force: its least period
	// between two writes (1 s, --iptables-min-sync-period and its like).
	Sync time.Duration
	// GiveUp is how long a client waits on a silent kept connection before it
	// takes another (package probe), and Timeout how long for one answer.
	GiveUp, Timeout time.Duration
	// Advert is between two adverts of the agents that hold an address, PeerAdvert
	// of what does in the run without them; Lease is the agents' lease, Write one
	// write to its record.
	Advert, PeerAdvert, Lease, Write time.Duration
	// Check is the promise of package health: a server that is silent has failed
	// within 2.1 s. Refused is its word for one that is killed, at once. HandOver is
	// from a failed check to the next holder.
	Check, Refused, HandOver time.Duration
	// Repeat is TCP's shortest time until it repeats (RFC 6298 as Linux has it,
	// TCP_RTO_MIN).
	Repeat time.Duration
	// Withdraw is from a withdrawal, or the loss of a session, to the router's
	// kernel (measured 0.06 s); Script what a check by curl in a script of the
	// shell takes besides its interval.
	Withdraw, Script time.Duration
	// Evict is what `kubectl drain` takes until the pod is told to end, Told until
	// the agents hear of that.
	Evict, Told time.Duration
	// Spread says that some requests alone meet the machine, or the pod, that is gone.
	Spread bool
	// Readiness is the probe of the pods of a Service, Slice how soon its endpoints
	// follow a pod.
	Readiness Readiness
	Slice     time.Duration
	// Noise is Margin for addresses, whose windows are fractions of a second: as
	// much as an echo over the loopback may take before a run is inconclusive.
	Noise time.Duration
	// LostAfter, HeadStart and BootGrace are those of the agents of a pair, Prove how old
	// the last proof of a quorum may be at the fault, Decide between two decisions, Ask
	// between two reads of the record when something is wrong, Claim a claim, the stop of
	// etcd and a read of the record, Edit and Restart the promises for both (issue 6), and
	// PairSlack Margin for a pair. Arbiter is how long the arbiter is away, GivenUp when a
	// person gives writes up.
	LostAfter, HeadStart, BootGrace, Prove, Decide, Ask, Claim, Edit, Restart, PairSlack, Arbiter, GivenUp time.Duration
	// Kept says that the path keeps its connection, which takes Reset and
	// Reconnect, not Move.
	Kept bool
	// Slack is Margin for the balancer, whose promises leave some already.
	Slack time.Duration
	// DiskSync is how long a sync of a slow disk takes, DiskRead the agent's time between
	// two readings of how long, and DiskSlow its wait while they say that the disk of
	// the leader is slow.
	DiskSync, DiskRead, DiskSlow time.Duration
	// Margin is what a shared machine with two cores may add by scheduling
	// and fsync; the measured worst of the parts is below it.
	Margin time.Duration
}

// DefaultTimers returns the agent's and etcd's defaults.
func DefaultTimers() Timers {
	return pairTimers(Timers{
		Election: defaultElection,
		Certain:  time.Second,
		Settle:   2 * time.Second,
		Publish:  500 * time.Millisecond,
		Quiet:    300 * time.Millisecond,
		Transfer: 300 * time.Millisecond,
		Retry:    500 * time.Millisecond,
		Interval: DefaultInterval,
		Margin:   1500 * time.Millisecond,

		DiskRead: 10*time.Second + 500*time.Millisecond, DiskSlow: 15 * time.Second,

		Move: 1500 * time.Millisecond, Reset: 2500 * time.Millisecond, Reconnect: 300 * time.Millisecond,
		EtcdCheck: defaultEtcdCheck, Serve: time.Second, Start: 15 * time.Second, Slack: 500 * time.Millisecond,
		Advert: DefaultAdvert, PeerAdvert: time.Second, Lease: 2500 * time.Millisecond, Write: 100 * time.Millisecond,
		Check: 2100 * time.Millisecond, Refused: 100 * time.Millisecond, HandOver: 50 * time.Millisecond,
		Withdraw: 100 * time.Millisecond, Script: 500 * time.Millisecond,
		Evict: 3 * time.Second, Told: time.Second,
		Repeat: 200 * time.Millisecond, Noise: 250 * time.Millisecond,
		Leave: 4 * time.Second, Adopt: DefaultAdopted, Sync: time.Second, Slice: time.Second, GiveUp: 10 * time.Second, Timeout: DefaultTimeout,
	})
}

// Window is an allowed outage, from the injection of the fault to a path that
// answers for good, with its derivation.
type Window struct {
	Min, Max time.Duration
	Why      []string
	// Served is how soon after the first apiserver was ready again the path must
	// answer; 0 when that plays no part. Max is then only what a hold must
	// outlast.
	Served time.Duration
	// FromLoss says that it counts from the first lost request, not from the
	// injection.
	FromLoss bool
}

// term is one addend of a window and the reason for it.
type term struct {
	d   time.Duration
	why string
}

var windows = map[string]func(Timers) Window{
	"takeover": takeover,
	"election": election,
	"flap":     flap,

	"balance":         balance,
	"balance-unready": unready,
	"balance-refused": refused,
	"balance-served":  served,

	"etcd-balance": leaderless,

	"kept-silent": keptSilent,
	"disk-left":   diskLeft,

	"vip-silent":      silent,
	"vip-silent-peer": silentPeer,
	"vip-lease":       leased,
	"vip-health":      unhealthy,
	"vip-refused":     refusedAt,
	"vip-resigned":    resigned,

	"bgp-health": announced,
	"bgp-closed": closed,
	"bgp-bfd":    detected,
	"bgp-hold":   holdTime,
	"bgp-check":  checked,
	"bgp-drain":  drained,

	"pair-led":      pairLed,
	"pair-followed": pairFollowed,
	"pair-booted":   pairBooted,
	"pair-waits":    pairWaits,
	"pair-return":   pairReturns,
	"pair-given-up": pairGivenUp,

	"service-split":   serviceSplit,
	"service-adopt":   serviceAdopt,
	"service-silent":  serviceSilent,
	"service-stalled": serviceStalled,
	"service-hung":    serviceHung,
	"service-deleted": serviceDeleted,
}

// Windows lists the names an expectation may use.
func Windows() []string { return slices.Sorted(maps.Keys(windows)) }

// Window derives the window called name.
func (t Timers) Window(name string) (Window, error) {
	derive, ok := windows[name]
	if !ok {
		return Window{}, fmt.Errorf("window %q: no such derivation; choose one of %v, %q or %q", name, Windows(), Never, Any)
	}
	return derive(t), nil
}

// takeover is the way from a cut to an agent's move: the agent must be sure of
// the link and wait, while the cut-off member must lose its leader and say so;
// the later of the two decides.
func takeover(t Timers) Window {
	sure := t.Certain + t.Settle
	known := 2*t.Election + t.Publish
	first := term{sure, fmt.Sprintf("link certain %s + settle %s (the cut-off member is leaderless and heard of after %s)", short(t.Certain), short(t.Settle), short(known))}
	if known > sure {
		first = term{known, fmt.Sprintf("cut-off member leaderless ≤ 2 × election %s + publish %s (link certain and settled after %s)", short(t.Election), short(t.Publish), short(sure))}
	}
	return sum(t.Election, append([]term{
		first,
		{t.Quiet, "quiet moment"},
		{t.Transfer, "transfer"},
		{2 * t.RTT, "two round trips"},
	}, t.seen()...))
}

// election is raft helping itself after a leader is gone: nobody campaigns
// before one election timeout, and two candidates may split the first vote.
func election(t Timers) Window {
	return sum(0, append(electionTerms(t.Election, t.RTT), t.seen()...))
}

// flap is a takeover that may miss the first cut (it can end just before the
// move) and then succeeds in the second.
func flap(t Timers) Window {
	w := takeover(t)
	w.Max += t.Period
	w.Why = append(w.Why, fmt.Sprintf("or in the second cut, %s later", short(t.Period)))
	return w
}

// seen is what stands between a cluster that works and a sample that shows it.
func (t Timers) seen() []term {
	return []term{
		{t.Retry, "read index retry"},
		{t.Interval, "sampling"},
		{t.Margin, "margin of a busy machine"},
	}
}

func sum(least time.Duration, terms []term) Window {
	w := Window{Min: least}
	for _, a := range terms {
		if a.d == 0 {
			continue
		}
		w.Max += a.d
		w.Why = append(w.Why, fmt.Sprintf("%s %s", a.why, short(a.d)))
	}
	return w
}

// short prints a duration for people: "2 s", "300 ms".
func short(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%g s", d.Seconds())
}

// TimersOf returns the timers that hold for cluster in c.
func (c *Case) TimersOf(cluster string) Timers {
	t := DefaultTimers()
	t.RTT = c.roundTrip()
	for _, k := range c.Clusters {
		if k.Name == cluster {
			t.Election = k.Election
		}
	}
	t.EtcdCheck = cmp.Or(c.EtcdCheck, t.EtcdCheck)
	if len(c.VIP.Nodes) > 0 {
		t.Advert, t.PeerAdvert = c.VIP.Interval, c.VIP.PeerAdvert()
	}
	for _, f := range c.Faults {
		t.Period = max(t.Period, f.Every)
		t.Down = max(t.Down, f.For)
		t.DiskSync = max(t.DiskSync, f.Sync)
		if slices.Contains(f.Kill, "agent:"+AgentArbiter+"/"+c.Pair.Site) {
			t.Arbiter = f.At + f.For
		}
		if len(f.GiveUp) > 0 {
			t.GivenUp = f.At
		}
	}
	return t
}

// WindowOf derives the window called name for one path. Those of balancers tell
// new from kept connections and are narrow enough for the interval of the path
// to count.
func (c *Case) WindowOf(p Path, name string) (Window, error) {
	t := c.TimersOf(p.Cluster)
	if p.Balanced() || p.InPod() || p.Addressed() || IsAPI(p.Kind) {
		t.Kept, t.Interval, t.Timeout = p.Kept(), p.Interval, p.Timeout
		t.Spread = p.Addressed() && c.VIP.Anycast() || p.Target == TargetClusterIP && c.Service.spreads(p.Site)
		t.Readiness = c.Service.Readiness
	}
	return t.Window(name)
}

// presetRTT is the longest round trip of each lab preset.
var presetRTT = map[string]time.Duration{
	"lan":     0,
	"rtt":     43 * time.Millisecond,
	"one-way": 86 * time.Millisecond,
}

func (c *Case) roundTrip() time.Duration {
	longest := presetRTT[c.Lab.Preset]
	for _, l := range c.Lab.Links {
		longest = max(longest, 2*(l.Delay+l.Jitter))
	}
	added := time.Duration(0)
	for _, f := range c.Faults {
		for _, s := range f.Slow {
			added = max(added, 2*(s.Delay+s.Jitter))
		}
	}
	return longest + added
}

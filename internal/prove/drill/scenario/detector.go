package scenario

import (
	"fmt"
	"time"
)

// The functions of this file derive how long one detector takes from a fault to
// its effect, from the timers that somebody else's system was read to have. The
// windows of the drills are made of the same ones, and a sample's interval and the
// margin of a busy machine come on top there.

// Hold is how long a BGP speaker goes on sending to a peer that fell silent: the
// hold time counts from the last message, which may be a keepalive time old (RFC
// 4271, sections 4.4 and 6.5).
func Hold(hold, keepalive time.Duration) Window {
	w := sum(0, holdTerms(hold))
	w.Min = max(0, hold-keepalive)
	return w
}

func holdTerms(hold time.Duration) []term { return []term{{hold, "hold time"}} }

// BFD is the same where BFD watches the peer. The detection time is counted from
// the last packet heard (RFC 5880, section 6.8.4), which came up to an interval
// before the peer fell silent.
func BFD(multiplier int, interval time.Duration) Window {
	w := sum(0, bfdTerms(multiplier, interval))
	w.Min = max(0, w.Max-interval)
	return w
}

func bfdTerms(multiplier int, interval time.Duration) []term {
	return []term{{time.Duration(multiplier) * interval, fmt.Sprintf("BFD misses %d packets of %s:", multiplier, short(interval))}}
}

// Timers of a session of kube-vip that was reset: gobgp keeps it idle (pkg/config/oc,
// DEFAULT_IDLE_HOLDTIME_AFTER_RESET), and then connects by kube-vip's own retry
// (pkg/bgp/peers.go).
const (
	idleAfterReset = 30 * time.Second
	connectRetry   = 10 * time.Second
)

// IdleAfterReset is how long a session of kube-vip is away after it was reset, which
// its BFD does at each miss.
func IdleAfterReset() Window {
	return sum(idleAfterReset, []term{
		{idleAfterReset, "a session that was reset stays idle for"},
		{connectRetry, "and tries to connect once in"},
	})
}

// GracefulRestart is w where the routes of a peer that is gone are kept for the
// restart time before they are withdrawn (RFC 4724, section 4.2).
func GracefulRestart(w Window, restart time.Duration) Window {
	return after(w, sum(restart, []term{{restart, "routes are kept as stale for the restart time"}}))
}

// Adverts is how long a VRRP backup waits for a holder that fell silent, up to an
// advert after its last one: three adverts and the skew of its priority (RFC 9568,
// section 6.1).
func Adverts(interval time.Duration, priority int) Window {
	w := sum(0, advertTerms(interval, priority))
	w.Min = w.Max - interval
	return w
}

func advertTerms(interval time.Duration, priority int) []term {
	return []term{
		{3 * interval, fmt.Sprintf("three adverts of %s:", short(interval))},
		{interval * time.Duration(256-priority) / 256, fmt.Sprintf("skew of priority %d:", priority)},
	}
}

// Handover is how long an address is away that its holder gives up, being unfit: an
// advert with priority 0 says so, and the best backup, of a priority, waits for its
// skew (RFC 9568, section 6.4.2).
func Handover(interval time.Duration, priority int) Window {
	return sum(0, advertTerms(interval, priority)[1:])
}

// Checks is how long a checker needs for a server that hangs: fall checks, one
// every interval, the last of which runs into its timeout. With a timeout of 0 the
// server refuses at once.
func Checks(interval, timeout time.Duration, fall int) Window {
	w := sum(0, append(checkTerms(interval, fall), term{timeout, "the last one times out after"}))
	w.Min = w.Max - interval
	return w
}

func checkTerms(interval time.Duration, fall int) []term {
	return []term{{time.Duration(fall) * interval, fmt.Sprintf("%d checks fail, one every %s:", fall, short(interval))}}
}

// leaseJitter is how much longer than its retry period client-go waits between
// two tries (leaderelection.go, JitterFactor).
const leaseJitter = 1.2

// Elected is how long nobody is the leader after the holder of a client-go lease
// died: a candidate looks every retry period and up to 1.2 times that more, must
// have seen the record unchanged for the lease, and then acts when it looks again.
// Of several candidates the first to look decides, so that most elections are
// shorter than the bound.
func Elected(lease, retry time.Duration) Window {
	look := retry + time.Duration(leaseJitter*float64(retry))
	w := sum(0, []term{
		{lease, "a lease is seen unchanged for"},
		{2 * look, fmt.Sprintf("a candidate sees the last renewal and its end late, up to %s each:", short(look))},
	})
	w.Min = max(0, lease-retry)
	return w
}

// Renewed is how long the holder of a client-go lease tries to renew it where its
// API does not answer, before it gives up what it holds.
func Renewed(deadline time.Duration) Window {
	return sum(deadline, []term{{deadline, "the lease is given up when it was not renewed for"}})
}

// Timers of the lease reconciler of kube-apiserver (pkg/controlplane,
// DefaultEndpointReconcilerInterval and DefaultEndpointReconcilerTTL). No flag
// changes them.
const (
	ReconcileEvery = 10 * time.Second
	EndpointTTL    = 15 * time.Second
)

// EndpointLease is how long a dead apiserver stays an endpoint of the Service
// default/kubernetes: its key in etcd was renewed up to a reconcile period before
// it died, and a survivor looks once in such a period.
func EndpointLease() Window {
	w := sum(0, []term{
		{EndpointTTL, "its key in etcd expires within"},
		{ReconcileEvery, "a survivor reconciles once in"},
	})
	w.Min = EndpointTTL - ReconcileEvery
	return w
}

// DefaultNodeGrace is --node-monitor-grace-period of kube-controller-manager since
// 1.32; before, it was 40 s. NodeHeartbeat is how often a kubelet renews its Lease,
// NodeMonitor how often the controller looks (--node-monitor-period).
const (
	DefaultNodeGrace = 50 * time.Second
	NodeHeartbeat    = 10 * time.Second
	NodeMonitor      = 5 * time.Second
)

// NotReady is from a machine's death to its Node being NotReady, which takes its
// pods out of the endpoints: the last heartbeat is up to one heartbeat old.
func NotReady(grace, heartbeat, monitor time.Duration) Window {
	w := sum(0, []term{
		{grace, "no heartbeat for the grace period"},
		{monitor, "looked at once in"},
	})
	w.Min = max(0, grace-heartbeat)
	return w
}

// DefaultEviction is how long the pods of a NotReady node stay where they do not
// say otherwise (plugin DefaultTolerationSeconds).
const DefaultEviction = 300 * time.Second

// Evicted is NotReady and then until the pods of the node are told to end and
// replaced elsewhere.
func Evicted(notReady Window, toleration time.Duration) Window {
	return after(notReady, sum(toleration, []term{{toleration, "pods tolerate that for"}}))
}

// Timers of the HTTP/2 of client-go (apimachinery/pkg/util/net, overridden by
// HTTP2_READ_IDLE_TIMEOUT_SECONDS and HTTP2_PING_TIMEOUT_SECONDS).
const (
	HTTP2Idle = 30 * time.Second
	HTTP2Ping = 15 * time.Second
)

// Pinged is how long a client waits on a kept HTTP/2 connection whose other end
// fell silent: it pings one that was silent for idle, and closes it where no
// answer came within ping.
func Pinged(idle, ping time.Duration) Window {
	w := sum(0, []term{
		{idle, "a kept connection is pinged when silent for"},
		{ping, "and closed without an answer within"},
	})
	w.Min = ping
	return w
}

// TCPGivesUp is how long TCP repeats what nobody acknowledges with Linux's default
// of 15 repetitions (tcp_retries2: 924.6 s at least, Documentation/networking/ip-sysctl).
const TCPGivesUp = 924600 * time.Millisecond

// Retransmitted is how long a client waits on a kept connection that nothing else
// watches.
func Retransmitted() Window {
	return sum(TCPGivesUp, []term{{TCPGivesUp, "TCP repeats what it sent for at least"}})
}

// DefaultElection is etcd's own --election-timeout.
const DefaultElection = defaultElection

// Leaderless is how long an etcd cluster has no leader after its leader is gone:
// nobody campaigns before one election timeout or after two, and two candidates
// may split the first vote.
func Leaderless(election, roundTrip time.Duration) Window {
	w := sum(0, electionTerms(election, roundTrip))
	w.Min = election
	return w
}

func electionTerms(election, roundTrip time.Duration) []term {
	return []term{
		{2 * election, fmt.Sprintf("election 1–2 × %s", short(election))},
		{election, "one split vote"},
		{2 * roundTrip, "two round trips"},
	}
}

// after is the window of second, which begins when first has ended.
func after(first, second Window) Window {
	return Window{
		Min: first.Min + second.Min, Max: first.Max + second.Max,
		Why: append(append([]string(nil), first.Why...), second.Why...),
	}
}

// Then is the window of what begins when w has ended.
func (w Window) Then(next Window) Window { return after(w, next) }

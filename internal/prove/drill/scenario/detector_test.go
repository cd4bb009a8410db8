package scenario

import (
	"strings"
	"testing"
	"time"
)

// Each detector's window against figures that stand in a document or were
// measured, or that follow from the sentence above its function.
func TestDetectors(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, tc := range []struct {
		name     string
		w        Window
		min, max time.Duration
	}{
		{"hold 30/10 s, up to 30 s", Hold(30*s, 10*s), 20 * s, 30 * s},
		{"hold 90/30 s, 60 to 90 s", Hold(90*s, 30*s), 60 * s, 90 * s},
		{"BFD 3 × 300 ms, measured 822 to 892 ms", BFD(3, 300*ms), 600 * ms, 900 * ms},
		{"hold 90 s and then 120 s of stale routes", GracefulRestart(Hold(90*s, 30*s), 120*s), 180 * s, 210 * s},
		{"kube-vip after a reset, measured 33.7 s", IdleAfterReset(), 30 * s, 40 * s},
		{"adverts of 1 s, measured 2.8 to 3.05 s after the last", Adverts(s, 100), 2609375 * time.Microsecond, 3609375 * time.Microsecond},
		{"given up with priority 0: the skew alone", Handover(s, 100), 0, 609375 * time.Microsecond},
		{"3 checks of 5 s with a timeout of 3 s", Checks(5*s, 3*s, 3), 13 * s, 18 * s},
		{"3 checks of 5 s that are refused", Checks(5*s, 0, 3), 10 * s, 15 * s},
		{"lease 15/2 s, measured 16.3 to 17.9 s with a ticker of 3 s", Elected(15*s, 2*s), 13 * s, 23800 * ms},
		{"renew deadline 10 s", Renewed(10 * s), 10 * s, 10 * s},
		{"default/kubernetes, 5 to 25 s", EndpointLease(), 5 * s, 25 * s},
		{"NotReady with grace 40 s, 30 to 45 s", NotReady(40*s, NodeHeartbeat, NodeMonitor), 30 * s, 45 * s},
		{"and eviction", Evicted(NotReady(40*s, NodeHeartbeat, NodeMonitor), DefaultEviction), 330 * s, 345 * s},
		{"HTTP/2, up to 45 s", Pinged(HTTP2Idle, HTTP2Ping), 15 * s, 45 * s},
		{"nobody watches, about 15 min", Retransmitted(), TCPGivesUp, TCPGivesUp},
		{"election of 1 s over 86 ms", Leaderless(s, 86*ms), s, 3172 * ms},
		{"one after the other", BFD(3, 300*ms).Then(EndpointLease()), 5600 * ms, 25900 * ms},
	} {
		if tc.w.Min != tc.min || tc.w.Max != tc.max {
			t.Errorf("%s: %s to %s, want %s to %s", tc.name, tc.w.Min, tc.w.Max, tc.min, tc.max)
		}
		if len(tc.w.Why) == 0 || strings.Contains(strings.Join(tc.w.Why, ""), "%!") {
			t.Errorf("%s: derivation %q", tc.name, tc.w.Why)
		}
	}
}

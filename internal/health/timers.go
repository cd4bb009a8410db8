package health

import (
	"fmt"
	"time"
)

// Timers are the limits that a Judge works with; see Default, Seed and Anchors.
type Timers struct {
	// Period is the time from the start of one check to the start of the next,
	// at most; jitter makes it up to 5 % shorter, never longer.
	Period time.Duration
	// Timeout is the silence after which a probe has failed. It counts from
	// the start of the probe and again from the end of the TLS handshake, for
	// that is a sign of the process, as the TCP handshake is not.
	Timeout time.Duration
	// Suspect is the silence of a check after which the server is suspect: four
	// times the smoothed answer time, at least Suspect, at most 1.6 times it.
	// 0 means no suspicion: probes follow one another by Period alone.
	Suspect time.Duration
	// DownPeriod is Period for a server that is not usable.
	DownPeriod time.Duration
	// Recheck is the time between the fresh probes of a suspect, and before
	// the next probe of a server that begins to rise.
	Recheck time.Duration
	// Rise good answers in a row make an unusable server usable; the first
	// answer of all needs no second.
	Rise int
	// Fall failed probes in a row make a usable server unusable.
	Fall int
	// FreshEvery makes every so many-th check use a new connection, for a
	// firewall that cuts new ones may let kept ones live. 1: each; 0: none.
	FreshEvery int
	// Score counts as siderolabs/go-loadbalancer does, for baselines, and Rise and
	// Fall do not count: from +1 within ±3, usable from 0, before any check too.
	Score bool
}

// Default is for apiservers and etcd on a LAN or a good WAN. A stopped server
// must have fallen after 2.1 s: 1 s until the next check and 1 s of silence, of
// which the fresh probe begun after 0.25 s shares 0.75 s. Where a server is slow
// the fresh probe begins after up to 0.4 s and shares 0.67 s, so 2.07 s at worst.
// And 1 s of silence is 0.2 s more than a calm server may take.
func Default() Timers {
	return Timers{
		Period: time.Second, Timeout: time.Second, Suspect: 250 * time.Millisecond,
		DownPeriod: 500 * time.Millisecond, Recheck: 200 * time.Millisecond,
		Rise: 2, Fall: 2, FreshEvery: 10,
	}
}

// Seed is a baseline: checks every 5 s with 3 s for an answer, as scripts and
// hand-written proxy configurations have them; 3 failures, 1 answer.
func Seed() Timers {
	return Timers{
		Period: 5 * time.Second, Timeout: 3 * time.Second, DownPeriod: 5 * time.Second,
		Recheck: 5 * time.Second, Rise: 1, Fall: 3, FreshEvery: 1,
	}
}

// Anchors are the constants of KubePrism and extractedprism, meant for TCP
// checks: 20 s and 15 s, with the score that those count by.
func Anchors() Timers {
	return Timers{
		Period: 20 * time.Second, Timeout: 15 * time.Second, DownPeriod: 20 * time.Second,
		Recheck: 20 * time.Second, Rise: 1, Fall: 4, FreshEvery: 1, Score: true,
	}
}

// Validate returns one line that names the first field that cannot work.
func (t Timers) Validate() error {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"period", t.Period}, {"timeout", t.Timeout}, {"downPeriod", t.DownPeriod}, {"recheck", t.Recheck}} {
		if f.value < time.Millisecond {
			return fmt.Errorf("%s: %s is too short; give at least 1ms", f.name, f.value)
		}
	}
	switch {
	case t.Timeout > t.Period:
		return fmt.Errorf("timeout: %s is longer than the period of %s; give a timeout of at most the period", t.Timeout, t.Period)
	case t.Suspect < 0 || t.Suspect*suspectMost > t.Timeout*suspectPer:
		return fmt.Errorf("suspect: %s does not fit the timeout of %s; give at most %s, or 0 for none", t.Suspect, t.Timeout, t.Timeout*suspectPer/suspectMost)
	case t.Rise < 1 || t.Fall < 1:
		return fmt.Errorf("rise, fall: %d, %d; give at least 1 each", t.Rise, t.Fall)
	case t.FreshEvery < 0:
		return fmt.Errorf("freshEvery: %d; give 0 or more", t.FreshEvery)
	}
	return nil
}

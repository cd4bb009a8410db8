package vip

import (
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Rules lists the rules of the group.
func Rules() []rule.Rule {
	return []rule.Rule{
		shortLease, leaks, restarts, portOnly, noTimeout, withoutRights, preemptedAnyway, neverMoves, slowMove,
		announcesDead, oneHolder, plainString, twoAgents, missingPeer, disagree,
	}
}

var shortLease = rule.Rule{
	ID: "HF-VIP-001", Group: rule.VIP, Severity: rule.Warning,
	Title: "kube-vip's lease is shorter than a hiccup of etcd",
	OneOf: []fact.Kind{fact.Pods, fact.DaemonSets, fact.Files},
	Why: "kube-vip holds the address by a lease in the API that is reached through it. Where etcd elects a leader or its disk is slow for " +
		"longer than the renew deadline, the address is given up, all clients reconnect, and that loads etcd further.",
	Remedy: "set vip_leaseduration 15, vip_renewdeadline 10, vip_retryperiod 2",
	Drill:  "vip-etcd-stalls",
	Check:  checkLease,
}

func checkLease(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	elected := 0
	for _, c := range f.Components("kube-vip") {
		if on, _ := c.Env("vip_leaderelection"); on != "true" {
			continue
		}
		elected++
		t, err := leaseOf(c)
		if err != nil {
			return nil, err
		}
		// Twice, for a candidate may lose the first election.
		hiccup := scenario.Leaderless(scenario.DefaultElection, 0).Then(scenario.Leaderless(scenario.DefaultElection, 0))
		if t.deadline > hiccup.Max {
			continue
		}
		all = append(all, rule.Finding{
			At: c.EnvAt("vip_renewdeadline"), Key: c.Node,
			What: fmt.Sprintf("vip_renewdeadline is %s, and etcd may be without a leader for %s", t.deadline, hiccup.Max),
			Effect: rule.Lasts(fmt.Sprintf("etcd not answering for %s", t.deadline), "the holder gives the address up, and it is away",
				scenario.Elected(t.lease, t.retry)),
			Remedy: "# in kube-vip's manifest, on every control-plane node, one after the other:\n" +
				"- {name: vip_leaseduration, value: \"15\"}\n- {name: vip_renewdeadline, value: \"10\"}\n- {name: vip_retryperiod, value: \"2\"}",
		})
	}
	if elected == 0 {
		return nil, fact.NotApplicable("no kube-vip that elects its holder by a lease")
	}
	return all, nil
}

type lease struct{ lease, deadline, retry time.Duration }

// leaseOf reads kube-vip's timers, which are whole seconds. Those not given are
// its defaults.
func leaseOf(c fact.Component) (l lease, err error) {
	for _, t := range []struct {
		name string
		into *time.Duration
		or   int
	}{{"vip_leaseduration", &l.lease, 15}, {"vip_renewdeadline", &l.deadline, 10}, {"vip_retryperiod", &l.retry, 2}} {
		seconds := t.or
		if text, ok := c.Env(t.name); ok {
			if seconds, err = strconv.Atoi(text); err != nil {
				return l, fact.Lacking("%s of kube-vip is %q, not a number of seconds", t.name, text)
			}
		}
		*t.into = time.Duration(seconds) * time.Second
	}
	return l, nil
}

package bgp

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

var keptAsStale = rule.Rule{
	ID: "HF-BGP-002", Group: rule.BGP, Severity: rule.Error,
	Title: "Graceful restart without BFD keeps the routes of a machine that is dead",
	OneOf: []fact.Kind{fact.Files, fact.Custom},
	Why: "Graceful restart is for a speaker that comes back while its machine goes on forwarding. A machine without power looks the same " +
		"to the router: after the hold time its routes are kept as stale for the restart time too, and its share of connections is lost all along (antrea#8324).",
	Remedy: "turn graceful restart off, or watch the sessions by BFD",
	Drill:  "bgp-node-dead",
	Check:  checkStale,
}

func checkStale(f *fact.Facts) ([]rule.Finding, error) {
	all := sessions(f)
	if len(all) == 0 {
		return nil, errNoSession
	}
	var found []rule.Finding
	for _, s := range all {
		if s.bfd || s.stale == 0 {
			continue
		}
		found = append(found, rule.Finding{
			At: s.at, Key: s.peer,
			What: fmt.Sprintf("the session of %s with %s has graceful restart (%s) and no BFD", s.who, s.peer, s.stale),
			Effect: rule.Lasts("losing a machine that announces", "its share of connections is lost",
				scenario.GracefulRestart(scenario.Hold(s.hold, s.keepalive), s.stale)),
			Remedy: s.remedy,
		})
	}
	return found, nil
}

var rareKeepalives = rule.Rule{
	ID: "HF-BGP-003", Group: rule.BGP, Severity: rule.Warning,
	Title: "kube-vip's keepalives are so rare that one lost packet ends the session",
	OneOf: []fact.Kind{fact.Pods, fact.DaemonSets, fact.Files},
	Why: "A keepalive is due three times within a hold time (RFC 4271, 4.4). kube-vip takes the interval as it is set: where only the hold " +
		"time was lowered, one or two lost packets end the session, and the routes go.",
	Remedy: "set bgp_keepalive_interval to a third of bgp_hold_time",
	Drill:  "bgp-agent-restarted",
	Check:  checkKeepalives,
}

func checkKeepalives(f *fact.Facts) ([]rule.Finding, error) {
	all := fromKubeVIP(f)
	if len(all) == 0 {
		return nil, fact.NotApplicable("no kube-vip with BGP")
	}
	var found []rule.Finding
	for _, s := range all {
		if s.hold == 0 || s.keepalive <= s.hold/3 {
			continue
		}
		found = append(found, rule.Finding{
			At: s.at, Key: s.peer,
			What: fmt.Sprintf("%s sends a keepalive every %s to %s, and the hold time is %s", s.who, s.keepalive, s.peer, s.hold),
			Effect: rule.Lasts("a lost keepalive", "the session is a packet from its end, and the address from leaving its routes,",
				scenario.Hold(s.hold, s.keepalive)),
			Remedy: fmt.Sprintf("# in kube-vip's manifest:\n- {name: bgp_keepalive_interval, value: \"%d\"}", max(1, int(s.hold/(3*time.Second)))),
		})
	}
	return found, nil
}

var oneRouter = rule.Rule{
	ID: "HF-BGP-004", Group: rule.BGP, Severity: rule.Warning,
	Title: "An address is announced to one router only",
	OneOf: []fact.Kind{fact.Files, fact.Custom, fact.Pods, fact.DaemonSets},
	Why: "The router is then a part of the control plane: while it restarts nobody outside its networks reaches the address, and kubelets " +
		"behind it turn their nodes NotReady.",
	Remedy: "announce to a second router, on another power feed",
	Drill:  "bgp-node-dead",
	Check:  checkOneRouter,
}

func checkOneRouter(f *fact.Facts) ([]rule.Finding, error) {
	all := sessions(f)
	if len(all) == 0 {
		return nil, errNoSession
	}
	routers := map[string]map[string]bool{}
	for _, s := range all {
		if routers[s.speaker] == nil {
			routers[s.speaker] = map[string]bool{}
		}
		routers[s.speaker][s.peer] = true
	}
	var found []rule.Finding
	for _, s := range all {
		if len(routers[s.speaker]) > 1 {
			continue
		}
		found = append(found, rule.Finding{
			At: s.at, Key: s.peer,
			What:   fmt.Sprintf("%s announces to %s and to nobody else", s.who, s.peer),
			Effect: rule.Unending("losing the router "+s.peer, "the announced addresses are out of reach from other networks"),
			Remedy: "# a second neighbour beside " + s.peer + " for " + s.who + ", with the same policy and BFD",
		})
	}
	return found, nil
}

// leastMicros is 10 ms: less than that between BFD packets was meant in milliseconds.
const leastMicros = 10000

var microseconds = rule.Rule{
	ID: "HF-BGP-009", Group: rule.BGP, Severity: rule.Error,
	Title: "kube-vip's BFD is told milliseconds and takes microseconds",
	OneOf: []fact.Kind{fact.Pods, fact.DaemonSets, fact.Files},
	Why: "kube-vip documents 300;300;3 and hands the figures on as microseconds: hundreds of packets a second, and a pause of a millisecond " +
		"counts as the death of the machine. Each time the session is reset and stays idle for half a minute.",
	Remedy: "give kube-vip's BFD times in microseconds: 300000;300000;3",
	Drill:  "bgp-node-dead",
	Check:  checkMicroseconds,
}

func checkMicroseconds(f *fact.Facts) ([]rule.Finding, error) {
	var found []rule.Finding
	watched := 0
	for _, c := range f.Components("kube-vip") {
		peers, _ := c.Env("bgp_peers")
		if on, _ := c.Env("bgp_enable"); on != "true" {
			continue
		}
		for _, peer := range strings.Split(peers, ",") {
			rx, tx, multiplier, ok := bfdOf(peer)
			if !ok {
				continue
			}
			watched++
			if rx >= leastMicros && tx >= leastMicros {
				continue
			}
			host, _, _ := strings.Cut(peer, ":")
			found = append(found, rule.Finding{
				At: c.EnvAt("bgp_peers"), Key: host,
				What:   fmt.Sprintf("BFD of kube-vip with %s has intervals of %d and %d µs", host, rx, tx),
				Effect: rule.Lasts("a pause of a millisecond", "the address is not among the routes", scenario.IdleAfterReset()),
				Remedy: fmt.Sprintf("# in kube-vip's manifest, in bgp_peers of %s:\n;bfd_on;%d;%d;%d", host, rx*1000, tx*1000, multiplier),
			})
		}
	}
	if watched == 0 {
		return nil, fact.NotApplicable("no kube-vip with BFD")
	}
	return found, nil
}

// bfdOf reads "…;bfd_on;RX;TX;MULTIPLIER" with kube-vip's defaults.
func bfdOf(peer string) (rx, tx, multiplier int, ok bool) {
	_, options, ok := strings.Cut(peer, "bfd_on")
	values := []int{300, 300, 3}
	for i, text := range strings.Split(strings.TrimPrefix(options, ";"), ";") {
		if n, err := strconv.Atoi(text); err == nil && i < len(values) {
			values[i] = n
		}
	}
	return values[0], values[1], values[2], ok
}

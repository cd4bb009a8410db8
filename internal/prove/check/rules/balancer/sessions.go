package balancer

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/conf"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

var sessionsStay = rule.Rule{
	ID: "HF-BAL-007", Group: rule.Balancer, Severity: rule.Warning,
	Title: "HAProxy leaves clients connected to an apiserver that it knows is down",
	Needs: []fact.Kind{fact.Files},
	Why: "Kubelets and controllers have one connection each, which they keep. A check that fails keeps new ones away only: clients of an " +
		"apiserver that hangs wait until they notice themselves, which is as long as a node may be silent.",
	Remedy: "add on-marked-down shutdown-sessions to default-server",
	Drill:  "balance-blackholed",
	Check:  func(f *fact.Facts) ([]rule.Finding, error) { return judgeEach(f, judgeSessions) },
}

func judgeSessions(_ *fact.Facts, b backend) []rule.Finding {
	for _, s := range b.servers {
		if !b.has(s, "check") || b.option(s, "on-marked-down") == "shutdown-sessions" {
			continue // without a check it is never marked: HF-BAL-001
		}
		return []rule.Finding{{
			At: b.at.LineIn(s.Line), Key: b.Text(),
			What: fmt.Sprintf("%s keeps the sessions of a server that is down: no on-marked-down shutdown-sessions", b.Text()),
			Effect: rule.Lasts("an apiserver that hangs", "clients that are connected to it wait",
				scenario.Pinged(scenario.HTTP2Idle, scenario.HTTP2Ping)),
			Remedy: b.Text() + "\n    default-server on-marked-down shutdown-sessions\n# and on every server line that has options of its own",
		}}
	}
	return nil
}

var quietCut = rule.Rule{
	ID: "HF-BAL-008", Group: rule.Balancer, Severity: rule.Warning,
	Title: "HAProxy cuts quiet connections to the API, or never ends dead ones",
	Needs: []fact.Kind{fact.Files},
	Why: "Clients of the API ask after 30 s of silence whether a connection lives. With timeouts below that HAProxy cuts watches that are " +
		"well, all the time; with none, a session whose client vanished is kept until maxconn is reached and nobody gets in.",
	Remedy: "set timeout client and timeout server above 30 s",
	Drill:  "cut-established",
	Check:  func(f *fact.Facts) ([]rule.Finding, error) { return judgeEach(f, judgeTimeouts) },
}

func judgeTimeouts(_ *fact.Facts, b backend) []rule.Finding {
	var all []rule.Finding
	for _, front := range b.fronts {
		all = append(all, judgeTimeout(b, front, "client")...)
	}
	return append(all, judgeTimeout(b, b.section, "server")...)
}

func judgeTimeout(b backend, s section, name string) []rule.Finding {
	at, d := s.setting("timeout", name), time.Duration(0)
	if tunnel := s.setting("timeout", "tunnel"); tunnel != nil {
		at, name = tunnel, "tunnel" // which counts once both sides are connected
	}
	finding := rule.Finding{At: b.at.LineIn(s.Line), Key: s.Text() + " " + name}
	finding.Remedy = s.Text() + "\n    timeout client 5m\n    timeout server 5m\n    option clitcpka\n    option srvtcpka"
	if at == nil {
		finding.What = fmt.Sprintf("%s has no timeout %s", s.Text(), name)
		finding.Effect = rule.Unending("clients or apiservers that vanish", "their sessions are kept, until maxconn is reached")
		return []rule.Finding{finding}
	}
	d, err := conf.HAProxyTime(at.Word(2))
	if err != nil || d > scenario.HTTP2Idle || d == 0 {
		return nil
	}
	finding.At = b.at.LineIn(at.Line)
	finding.What = fmt.Sprintf("timeout %s of %s is %s, and clients ask after %s whether a connection lives", name, s.Text(), d, scenario.HTTP2Idle)
	finding.Effect = rule.Unending(fmt.Sprintf("%s without an event", d), "a watch is cut, and its client lists and watches anew")
	return []rule.Finding{finding}
}

var sameServer = rule.Rule{
	ID: "HF-BAL-009", Group: rule.Balancer, Severity: rule.Note,
	Title: "HAProxy tries a dead apiserver again instead of the next one",
	Needs: []fact.Kind{fact.Files},
	Why: "Without option redispatch all retries of a connection go to the server that was chosen first. Until the checks have found out, " +
		"its share of new connections fails although the others would take them.",
	Remedy: "add option redispatch and retries 3",
	Drill:  "balance-killed",
	Check:  func(f *fact.Facts) ([]rule.Finding, error) { return judgeEach(f, judgeRetries) },
}

func judgeRetries(_ *fact.Facts, b backend) []rule.Finding {
	if b.setting("option", "redispatch") != nil || len(b.servers) < 2 {
		return nil
	}
	return []rule.Finding{{
		At: b.at, Key: b.Text(), What: b.Text() + " has no option redispatch",
		Effect: rule.Lasts("an apiserver that is killed", b.share(), b.gone(b.servers[0])),
		Remedy: b.Text() + "\n    option redispatch 1\n    retries 3\n    timeout connect 2s",
	}}
}

var neverBack = rule.Rule{
	ID: "HF-BAL-014", Group: rule.Balancer, Severity: rule.Note,
	Title: "Clients never leave an apiserver for one that came back",
	Needs: []fact.Kind{fact.Files},
	Why: "Clients keep their one connection. After each restart all of them are with the apiservers that stayed, and the one that came back " +
		"gets new clients only: after a rolling upgrade one of three may carry nearly all, and its end hits all of them.",
	Remedy: "set --goaway-chance on the apiservers, or use a balancer that moves connections back",
	Drill:  "balance-rolling",
	Check:  checkGoaway,
}

func checkGoaway(f *fact.Facts) ([]rule.Finding, error) {
	if len(apiBackends(f)) == 0 {
		return nil, fact.NotApplicable("no HAProxy with apiservers behind it")
	}
	servers := f.Components("kube-apiserver")
	if len(servers) == 0 {
		return nil, fact.Lacking("the flags of the apiservers are not known: neither pods nor static pods' manifests")
	}
	if len(servers) == 1 {
		return nil, fact.NotApplicable("one apiserver is known")
	}
	var all []rule.Finding
	for _, c := range servers {
		if chance, ok := c.Flag("goaway-chance"); ok && chance != "0" {
			continue
		}
		all = append(all, rule.Finding{
			At: c.FlagAt("goaway-chance"), Key: c.Node, What: strings.TrimSpace("kube-apiserver "+c.Node) + " has no --goaway-chance",
			Effect: rule.Unending("each restart of another apiserver", "its clients stay with this one and the rest, also when it is back"),
			Remedy: "- --goaway-chance=0.001   # in /etc/kubernetes/manifests/kube-apiserver.yaml, one node after the other: 1 of 1000 requests makes its client connect anew",
		})
	}
	return all, nil
}

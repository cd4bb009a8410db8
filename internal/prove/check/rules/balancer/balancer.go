package balancer

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Rules lists the rules of the group.
func Rules() []rule.Rule {
	return []rule.Rule{
		connectOnly, alone, quickestConnect, oneAddress, nonlocal, unauthorized,
		sessionsStay, quietCut, sameServer, slow, samePort, passive, notReadyz, neverBack,
	}
}

var connectOnly = rule.Rule{
	ID: "HF-BAL-001", Group: rule.Balancer, Severity: rule.Error,
	Title: "HAProxy asks apiservers for a connection only, not whether they are ready",
	Needs: []fact.Kind{fact.Files},
	Why: "An apiserver that hangs, starts, or has lost its etcd still accepts connections: the kernel does. A check that connects takes " +
		"it for good, and its share of requests fails as long as it hangs.",
	Remedy: "check /readyz over TLS",
	Drill:  "nat-asymmetric",
	Check:  checkConnectOnly,
}

func checkConnectOnly(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	backends := 0
	for _, b := range apiBackends(f) {
		backends++
		if finding, bad := judge(b); bad {
			all = append(all, finding)
		}
	}
	if backends == 0 {
		return nil, fact.NotApplicable("no HAProxy with apiservers behind it")
	}
	return all, nil
}

func judge(b backend) (rule.Finding, bool) {
	unchecked := 0
	for _, s := range b.servers {
		if !b.has(s, "check") && !b.has(s, "agent-check") {
			unchecked++
		}
	}
	if b.asks() && unchecked == 0 {
		return rule.Finding{}, false
	}
	what, fault := fmt.Sprintf("%s checks its %d apiservers by a connection only", b.Text(), len(b.servers)), "an apiserver that hangs"
	switch {
	case unchecked > 0:
		what = fmt.Sprintf("%s does not check %d of its %d apiservers", b.Text(), unchecked, len(b.servers))
	case b.setting("option", "ssl-hello-chk") != nil:
		what = fmt.Sprintf("%s checks its %d apiservers by a greeting of TLS only", b.Text(), len(b.servers))
		fault = "an apiserver that has lost its etcd"
	}
	return rule.Finding{
		At: b.at, Key: b.Text(), What: what, Effect: rule.Unending(fault, b.share()), Remedy: readyz(b),
	}, true
}

// asks says that the check is a request with an answer, and not only a connection.
func (b backend) asks() bool {
	return b.setting("option", "httpchk") != nil || b.setting("option", "external-check") != nil || b.setting("tcp-check", "expect") != nil
}

// readyz is the section with a check of /readyz, and what that check would take.
func readyz(b backend) string {
	const interval, fall = 2 * time.Second, 2
	w := scenario.Checks(interval, interval, fall)
	var text strings.Builder
	fmt.Fprintf(&text, "%s   # leaves a hanging apiserver within %s\n", b.Text(), w.Max)
	text.WriteString("    option httpchk GET /readyz\n    http-check expect status 200\n    default-server check check-ssl verify required ca-file /etc/kubernetes/pki/ca.crt inter 2s fall 2 rise 2 on-marked-down shutdown-sessions\n")
	for _, s := range b.servers {
		fmt.Fprintf(&text, "    server %s %s\n", s.Word(1), s.Word(2))
	}
	return text.String()
}

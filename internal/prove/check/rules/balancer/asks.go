package balancer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/conf"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

var unauthorized = rule.Rule{
	ID: "HF-BAL-006", Group: rule.Balancer, Severity: rule.Error,
	Title: "HAProxy asks /readyz without credentials, and anonymous access is off",
	Needs: []fact.Kind{fact.Files},
	Why: "k3s has anonymous access off by default, and so have hardened clusters: /readyz then answers 401 to whoever shows nothing. " +
		"A check that expects 200 marks every apiserver down, and the balancer sends nobody anywhere.",
	Remedy: "give the check a client certificate, or let it take 401 for alive",
	Drill:  "balance-unready",
	Check:  checkCredentials,
}

func checkCredentials(f *fact.Facts) ([]rule.Finding, error) {
	told := false
	all, err := judgeEach(f, func(f *fact.Facts, b backend) []rule.Finding {
		off, known := anonymousOff(f, b)
		told = told || known || !asksAnonymously(b)
		if !off || !asksAnonymously(b) {
			return nil
		}
		return []rule.Finding{{
			At: b.at, Key: b.Text(),
			What:   fmt.Sprintf("%s asks for %s without a certificate, and its apiservers answer 401 to that", b.Text(), b.uri()),
			Effect: rule.Unending("as it is set", "every apiserver is down for it"),
			Remedy: b.Text() + "\n    default-server check check-ssl verify required ca-file /etc/haproxy/ca.crt crt /etc/haproxy/readyz.pem   # certificate and key of a user who may get /readyz\n" +
				"# or, as a lower grade: http-check expect status 200,401",
		}}
	})
	if err == nil && !told {
		return nil, fact.Lacking("nobody knows whether the apiservers answer without credentials: no probe, no flags")
	}
	return all, err
}

func asksAnonymously(b backend) bool {
	if b.setting("option", "httpchk") == nil {
		return false
	}
	for _, s := range []*conf.Block{b.Block, b.defaults} {
		for _, line := range append(s.All("http-check"), s.All("option", "httpchk")...) {
			if text := line.Text(); strings.Contains(text, "Authorization") || strings.Contains(text, "401") {
				return false
			}
		}
	}
	return !slices.ContainsFunc(b.servers, func(s *conf.Block) bool { return b.option(s, "crt") != "" })
}

// anonymousOff says whether the apiservers refuse who shows nothing, and whether
// that is known: by a probe, by a flag, or since they are k3s' or RKE2's.
func anonymousOff(f *fact.Facts, b backend) (off, known bool) {
	for _, server := range b.servers {
		host := fact.Host(server.Word(2))
		for _, p := range f.Probes.Items {
			if fact.Host(p.Object.Address) == host && (p.Object.Outcome == fact.ProbeOK || p.Object.Outcome == fact.ProbeUnauthorized) {
				off, known = off || p.Object.Outcome == fact.ProbeUnauthorized, true
			}
		}
		if node := f.NodeOf(host); node != nil {
			flagOff, flagKnown := anonymousFlag(f, node.Name)
			off, known = off || flagOff, known || flagKnown
		}
	}
	return off, known
}

func anonymousFlag(f *fact.Facts, node string) (off, known bool) {
	for _, c := range f.Components("kube-apiserver") {
		if c.Node == node {
			v, _ := c.Flag("anonymous-auth")
			return v == "false", true
		}
	}
	for _, name := range []string{"/etc/rancher/k3s/config.yaml", "/etc/rancher/rke2/config.yaml"} {
		if file, _ := f.FileOf(node, name); file != nil {
			return !strings.Contains(string(file.Object.Data), "anonymous-auth=true"), true
		}
	}
	return false, false
}

var slow = rule.Rule{
	ID: "HF-BAL-010", Group: rule.Balancer, Severity: rule.Warning,
	Title: "HAProxy leaves a hanging apiserver later than nodes may be silent",
	Needs: []fact.Kind{fact.Files},
	Why: "inter, fall and timeout check together are how long a server that hangs is still sent to. A check waits for its timeout, and the " +
		"next one waits for it. Beyond 40 s kubelets that connect anew meet the hanging server again, and their nodes turn NotReady.",
	Remedy: "inter 2s fall 2, and a timeout check of no more than inter",
	Drill:  "balance-frozen",
	Check:  func(f *fact.Facts) ([]rule.Finding, error) { return judgeEach(f, judgeRhythm) },
}

// patience is how long a kubelet may be without an apiserver for certain.
const patience = scenario.DefaultNodeGrace - scenario.NodeHeartbeat

func judgeRhythm(_ *fact.Facts, b backend) []rule.Finding {
	if !b.checked() {
		return nil // HF-BAL-001
	}
	for _, s := range b.servers {
		w := b.hung(s)
		if w.Max <= patience {
			continue
		}
		return []rule.Finding{{
			At: b.at.LineIn(s.Line), Key: b.Text(),
			What:   fmt.Sprintf("%s leaves an apiserver that hangs within %s, and nodes may be silent for %s", b.Text(), w.Max, patience),
			Effect: rule.Lasts("an apiserver that hangs", b.share(), w),
			Remedy: b.Text() + "\n    timeout check 2s\n    default-server inter 2s fall 2 rise 2 on-marked-down shutdown-sessions\n# and no inter or fall of their own on server lines",
		}}
	}
	return nil
}

var notReadyz = rule.Rule{
	ID: "HF-BAL-013", Group: rule.Balancer, Severity: rule.Note,
	Title: "HAProxy asks whether an apiserver lives, not whether it is ready",
	Needs: []fact.Kind{fact.Files},
	Why: "/readyz fails as soon as an apiserver begins to stop and until it has started whole; /healthz and /livez do not. Every restart of " +
		"an apiserver, as in an upgrade, then loses connections that a drain would have spared.",
	Remedy: "ask /readyz, with --shutdown-delay-duration on the apiservers",
	Drill:  "balance-rolling",
	Check:  func(f *fact.Facts) ([]rule.Finding, error) { return judgeEach(f, judgePath) },
}

// uri is what the check asks for; "" where it only connects or says it elsewhere.
func (b backend) uri() string {
	if send := b.setting("http-check", "send"); send.After("uri") != "" {
		return send.After("uri")
	}
	words := b.setting("option", "httpchk")
	for i := 2; words != nil && i < len(words.Words); i++ {
		if strings.HasPrefix(words.Word(i), "/") {
			return words.Word(i)
		}
	}
	return ""
}

func judgePath(_ *fact.Facts, b backend) []rule.Finding {
	uri := b.uri()
	if !b.checked() || !strings.HasPrefix(uri, "/healthz") && !strings.HasPrefix(uri, "/livez") {
		return nil
	}
	at := b.setting("option", "httpchk")
	if send := b.setting("http-check", "send"); send != nil {
		at = send
	}
	return []rule.Finding{{
		At: b.at.LineIn(at.Line), Key: b.Text(), What: fmt.Sprintf("%s asks its apiservers for %s", b.Text(), uri),
		Effect: rule.Lasts("an apiserver that is restarted", b.share(), b.gone(b.servers[0])),
		Remedy: b.Text() + "\n    option httpchk GET /readyz\n    http-check expect status 200\n# kube-apiserver: --shutdown-delay-duration=10s, in which /readyz fails and requests are served",
	}}
}

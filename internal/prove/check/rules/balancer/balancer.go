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

// Rules lists the rules of the group.
func Rules() []rule.Rule { return []rule.Rule{connectOnly} }

var connectOnly = rule.Rule{
	ID: "HF-BAL-001", Group: rule.Balancer, Severity: rule.Error,
	Title: "HAProxy asks apiservers for a connection only, not whether they are ready",
	Needs: []fact.Kind{fact.Files},
	Why: "An apiserver that hangs, starts, or has lost its etcd still accepts connections: the kernel does. A check that connects takes " +
		"it for good, and its share of requests fails as long as it hangs.",
	Remedy: "check /readyz over TLS",
	Drill:  "balance-frozen",
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

// backend is a section of haproxy.cfg with apiservers behind it.
type backend struct {
	at       fact.Location
	section  *conf.Block
	defaults *conf.Block
	servers  []*conf.Block
}

func apiBackends(f *fact.Facts) []backend {
	var all []backend
	for _, file := range f.FilesAt("/etc/haproxy/*.cfg") {
		defaults := &conf.Block{}
		for _, s := range conf.HAProxy(file.Object.Data).Blocks {
			if s.Has("defaults") {
				defaults = s // the last before a section is its own
			}
			if servers := apiServers(s); len(servers) > 0 {
				all = append(all, backend{file.At.LineIn(s.Line), s, defaults, servers})
			}
		}
	}
	return all
}

// ports are those of kube-apiserver, and of the supervisors of k3s and RKE2.
var ports = []string{":6443", ":8443", ":9345"}

func apiServers(s *conf.Block) []*conf.Block {
	if !s.Has("backend") && !s.Has("listen") {
		return nil
	}
	var all []*conf.Block
	for _, server := range s.All("server") {
		for _, port := range ports {
			if strings.HasSuffix(server.Word(2), port) || strings.Contains(s.Word(1), "apiserver") {
				all = append(all, server)
				break
			}
		}
	}
	return all
}

func judge(b backend) (rule.Finding, bool) {
	asks := b.section.First("option", "httpchk") != nil || b.defaults.First("option", "httpchk") != nil
	unchecked := 0
	for _, s := range b.servers {
		if !hasWord(s, "check") {
			unchecked++
		}
	}
	if asks && unchecked == 0 {
		return rule.Finding{}, false
	}
	what := fmt.Sprintf("%s checks its %d apiservers by a connection only", b.section.Text(), len(b.servers))
	if unchecked > 0 {
		what = fmt.Sprintf("%s does not check %d of its %d apiservers", b.section.Text(), unchecked, len(b.servers))
	}
	return rule.Finding{
		At: b.at, Key: b.section.Text(), What: what,
		Effect: rule.Unending("an apiserver that hangs", fmt.Sprintf("1 of %d new connections fails", len(b.servers))),
		Remedy: readyz(b),
	}, true
}

func hasWord(b *conf.Block, word string) bool {
	for _, w := range b.Words {
		if w == word {
			return true
		}
	}
	return false
}

// readyz is the section with a check of /readyz, and what that check would take.
func readyz(b backend) string {
	const interval, fall = 2 * time.Second, 2
	w := scenario.Checks(interval, interval, fall)
	var text strings.Builder
	fmt.Fprintf(&text, "%s   # leaves a hanging apiserver within %s\n", b.section.Text(), w.Max)
	text.WriteString("    option httpchk GET /readyz\n    http-check expect status 200\n    default-server check check-ssl verify required ca-file /etc/kubernetes/pki/ca.crt inter 2s fall 2 rise 2 on-marked-down shutdown-sessions\n")
	for _, s := range b.servers {
		fmt.Fprintf(&text, "    server %s %s\n", s.Word(1), s.Word(2))
	}
	return text.String()
}

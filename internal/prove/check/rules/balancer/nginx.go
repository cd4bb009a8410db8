package balancer

import (
	"fmt"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/conf"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

var passive = rule.Rule{
	ID: "HF-BAL-012", Group: rule.Balancer, Severity: rule.Warning,
	Title: "nginx in front of the apiservers checks none of them",
	Needs: []fact.Kind{fact.Files},
	Why: "nginx's stream module notices only that a connect fails, with clients' own connections, and tries again every 10 s with the next " +
		"client's. An apiserver that hangs or is not ready accepts, and keeps its share of connections as long as it does.",
	Remedy: "a balancer that asks /readyz",
	Drill:  "balance-frozen",
	Check:  checkNGINX,
}

func checkNGINX(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	seen := 0
	for _, pattern := range []string{"/etc/nginx/*.conf", "/etc/nginx/conf.d/*.conf"} {
		for _, file := range f.FilesAt(pattern) {
			root := conf.NGINX(file.Object.Data)
			for _, u := range upstreams(root) {
				seen++
				if !checksActively(root, u.Word(1)) {
					all = append(all, unchecked(file, u))
				}
			}
		}
	}
	if seen == 0 {
		return nil, fact.NotApplicable("no nginx with apiservers behind it")
	}
	return all, nil
}

// upstreams are those of which a server is an apiserver, by its port.
func upstreams(root *conf.Block) []*conf.Block {
	var all []*conf.Block
	root.Walk(func(b *conf.Block) {
		if !b.Has("upstream") {
			return
		}
		for _, s := range b.All("server") {
			if apiPort(s.Word(1)) {
				all = append(all, b)
				return
			}
		}
	})
	return all
}

// checksActively says that a server in front of the upstream has health_check with
// something to match, as nginx's commercial edition can.
func checksActively(root *conf.Block, upstream string) bool {
	active := false
	root.Walk(func(b *conf.Block) {
		if b.Has("server") && b.First("proxy_pass", upstream) != nil && matches(b.First("health_check")) {
			active = true
		}
	})
	return active
}

func unchecked(file fact.Item[fact.File], u *conf.Block) rule.Finding {
	servers := u.All("server")
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = s.Word(1)
	}
	return rule.Finding{
		At: file.At.LineIn(u.Line), Key: u.Text(),
		What:   fmt.Sprintf("upstream %s of nginx on %s has %d apiservers and no check that asks them", u.Word(1), file.Object.Node, len(servers)),
		Effect: rule.Unending("an apiserver that hangs", fmt.Sprintf("1 of %d new connections fails", len(servers))),
		Remedy: fmt.Sprintf("holdfast balance manifest static-pod --backend %s > /etc/kubernetes/manifests/holdfast-balance.yaml   # on %s", strings.Join(list, ","), file.Object.Node),
	}
}

func matches(check *conf.Block) bool { return check != nil && strings.Contains(check.Text(), "match=") }

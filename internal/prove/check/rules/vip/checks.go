package vip

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// remedyScript is a check that asks what clients need to know.
const remedyScript = "# /etc/keepalived/keepalived.conf\nvrrp_script apiserver {\n" +
	"    script \"/usr/bin/curl -fsS --max-time 2 --cacert /etc/kubernetes/pki/ca.crt https://localhost:6443/readyz\"\n" +
	"    interval 3\n    timeout 3\n    fall 3\n    rise 2\n}\n# and in vrrp_instance:\n    track_script {\n        apiserver\n    }"

var portOnly = rule.Rule{
	ID: "HF-VIP-004", Group: rule.VIP, Severity: rule.Error,
	Title: "keepalived holds an address without asking whether the apiserver is ready",
	Needs: []fact.Kind{fact.Files},
	Why: "VRRP moves an address when its machine falls silent, and for nothing else. A check of a port or a process is content with an " +
		"apiserver that hangs or has lost its etcd: the kernel still accepts connections.",
	Remedy: remedyScript,
	Drill:  "vip-apiserver-hung",
	Check:  checkPortOnly,
}

func checkPortOnly(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	var lacking error
	err := eachInstance(f, func(d daemon, i instance) {
		if d.balances || i.watched {
			return
		}
		what := fmt.Sprintf("vrrp_instance %s of %s has no track_script", i.name, d.node)
		at := i.at
		for _, s := range d.tracked(i) {
			if !s.known {
				lacking = fact.Lacking("the script of vrrp_script %s on %s was not collected", s.name, d.node)
				return
			}
			if !onlyPort(s.text) {
				return
			}
			at = s.at
			what = fmt.Sprintf("vrrp_script %s of %s asks for a port or a process only (%s)", s.name, d.node, s.command)
		}
		all = append(all, rule.Finding{
			At: at, Key: d.node + "/" + i.name, What: what, Remedy: remedyScript,
			Effect: rule.Unending("an apiserver that hangs on the machine with the address", "the API does not answer by its address"),
		})
	})
	if err == nil {
		err = lacking
	}
	return all, err
}

// onlyPort says whether a check is surely content with a port or a process of the
// apiserver. One of another program is not judged.
func onlyPort(text string) bool {
	for _, asks := range []string{"readyz", "livez", "healthz", "kubectl", "curl", "wget", "http"} {
		if strings.Contains(text, asks) {
			return false
		}
	}
	if strings.Contains(text, "kube-apiserver") {
		return strings.Contains(text, "killall -0") || strings.Contains(text, "pidof") || strings.Contains(text, "pgrep")
	}
	if !strings.Contains(text, "6443") {
		return false
	}
	return strings.Contains(text, "nc ") || strings.Contains(text, "/dev/tcp/") || strings.Contains(text, "ss ") || strings.Contains(text, "netstat")
}

var noTimeout = rule.Rule{
	ID: "HF-VIP-005", Group: rule.VIP, Severity: rule.Warning,
	Title: "keepalived's check has no timeout, nor has what it asks with",
	Needs: []fact.Kind{fact.Files},
	Why: "An apiserver that hangs accepts the check's connection and never answers. How long that takes to count as a failure should be " +
		"written down: without it keepalived ends the check after an interval, whatever a good answer takes, and an old one waits for it.",
	Remedy: remedyScript,
	Drill:  "vip-apiserver-hung",
	Check:  checkTimeout,
}

func checkTimeout(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	scripts := 0
	var lacking error
	for _, d := range daemons(f) {
		for _, i := range d.instances {
			for _, s := range d.tracked(i) {
				scripts++
				switch {
				case s.timeout > 0:
				case !s.known:
					lacking = fact.Lacking("the script of vrrp_script %s on %s was not collected", s.name, d.node)
				case asksUnbounded(s.text):
					all = append(all, rule.Finding{
						At: s.at, Key: d.node + "/" + s.name, Remedy: remedyScript,
						What: fmt.Sprintf("vrrp_script %s of %s sets no timeout, and asks without --max-time: its interval of %s has to do for one", s.name, d.node, s.interval),
						Effect: rule.Lasts("an apiserver that hangs on the machine with the address", "the API does not answer by its address",
							scenario.Checks(s.interval, s.waits(), s.fall)),
					})
				}
			}
		}
	}
	if scripts == 0 {
		return nil, fact.NotApplicable("no vrrp_script decides about an address")
	}
	return all, lacking
}

// asksUnbounded says whether a script asks over the network and waits for ever.
func asksUnbounded(text string) bool {
	if !strings.Contains(text, "curl") && !strings.Contains(text, "wget") && !strings.Contains(text, "kubectl") {
		return false
	}
	for _, bound := range []string{"--max-time", " -m ", " -m2", " -m3", "--timeout", "--request-timeout", "timeout "} {
		if strings.Contains(text, bound) {
			return false
		}
	}
	return true
}

var withoutRights = rule.Rule{
	ID: "HF-VIP-006", Group: rule.VIP, Severity: rule.Error,
	Title: "keepalived's check runs as a user who may not read its credentials",
	Needs: []fact.Kind{fact.Files},
	Why: "Kubeconfigs and keys below /etc/kubernetes are readable by root alone. A check that runs as another user fails on every machine, " +
		"so that none is fit to hold the address, or all are alike.",
	Remedy: "let the check run as root, or give it a client certificate of its own",
	Drill:  "vip-apiserver-dead",
	Check:  checkRights,
}

var rootsOwn = []string{"/etc/kubernetes/admin.conf", "/etc/kubernetes/super-admin.conf", "/etc/kubernetes/kubelet.conf", ".key", "/etc/rancher/"}

func checkRights(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	scripts := 0
	for _, d := range daemons(f) {
		for _, s := range d.scripts {
			scripts++
			user := s.user
			if user == "" {
				user = d.user
			}
			if user == "" || user == "root" {
				continue
			}
			for _, file := range rootsOwn {
				if !strings.Contains(s.text, file) {
					continue
				}
				all = append(all, rule.Finding{
					At: s.at, Key: d.node + "/" + s.name,
					What:   fmt.Sprintf("vrrp_script %s of %s runs as %s and reads %s, which is root's", s.name, d.node, user, file),
					Effect: rule.Unending("as it is set up", "the check fails on "+d.node+", and the address leaves it or never moves"),
					Remedy: "# /etc/keepalived/keepalived.conf\nglobal_defs {\n    enable_script_security\n    script_user root\n}",
				})
				break
			}
		}
	}
	if scripts == 0 {
		return nil, fact.NotApplicable("no vrrp_script in any keepalived.conf")
	}
	return all, nil
}

// slow is how long a move may take that a person still calls quick: what three
// checks of 5 s take.
const slow = 15 * time.Second

var slowMove = rule.Rule{
	ID: "HF-VIP-009", Group: rule.VIP, Severity: rule.Warning,
	Title: "keepalived's timers let an address stay for more than 15 s",
	Needs: []fact.Kind{fact.Files},
	Why: "The interval of a check times its fall, and three adverts with the skew of the priority, are how long clients get no answer. " +
		"Both are set for each machine by itself and add up unseen.",
	Remedy: "interval 3, timeout 3, fall 3, rise 2 and advert_int 1 move an address in about 10 s",
	Drill:  "vip-node-silent",
	Check:  checkSlow,
}

func checkSlow(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	err := eachInstance(f, func(d daemon, i instance) {
		adverts := scenario.Adverts(i.interval, i.priority)
		if adverts.Max > slow {
			all = append(all, rule.Finding{
				At: i.at, Key: d.node + "/" + i.name,
				What:   fmt.Sprintf("vrrp_instance %s of %s sends an advert every %s", i.name, d.node, i.interval),
				Effect: rule.Lasts("losing the machine with the address", "the address does not answer", adverts),
				Remedy: "# in every machine's vrrp_instance " + i.name + ", at the same time:\n    advert_int 1",
			})
		}
		for _, s := range d.tracked(i) {
			w := scenario.Checks(s.interval, s.waits(), s.fall)
			if s.weight != 0 { // the priority falls, and a backup waits for adverts that it outbids
				w = w.Then(adverts)
			}
			if w.Max <= slow {
				continue
			}
			all = append(all, rule.Finding{
				At: s.at, Key: d.node + "/" + s.name,
				What:   fmt.Sprintf("vrrp_script %s of %s fails after %d checks, one every %s", s.name, d.node, s.fall, s.interval),
				Effect: rule.Lasts("an apiserver that hangs on the machine with the address", "the API does not answer by its address", w),
				Remedy: "# in vrrp_script " + s.name + ":\n    interval 3\n    timeout 3\n    fall 3\n    rise 2",
			})
		}
	})
	return all, err
}

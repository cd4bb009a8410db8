package clients

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

var unwatched = rule.Rule{
	ID: "HF-CLI-005", Group: rule.Clients, Severity: rule.Warning,
	Title: "A client of the API does not ask whether its connection lives",
	OneOf: []fact.Kind{fact.DaemonSets, fact.Deployments, fact.Pods, fact.Files},
	Why: "A connection whose other end vanished is noticed by a ping of HTTP/2, 30 s after the last byte. With the pings or HTTP/2 switched " +
		"off only TCP notices, after a quarter of an hour in which the client waits and does nothing.",
	Remedy: "take HTTP2_READ_IDLE_TIMEOUT_SECONDS=0 and DISABLE_HTTP2 out",
	Drill:  "cut-established",
	Check:  checkUnwatched,
}

const (
	idleVariable    = "HTTP2_READ_IDLE_TIMEOUT_SECONDS"
	disableVariable = "DISABLE_HTTP2"
)

// switchedOff matches either in a unit's Environment= or a file of variables.
var switchedOff = regexp.MustCompile(`(` + idleVariable + `=["']?0)["']?(?:\s|$)|(` + disableVariable + `=["']?\w+)`)

// kubeletFiles are where a kubelet's variables are set.
var kubeletFiles = []string{"/etc/systemd/system/kubelet.service.d/*.conf", "/usr/lib/systemd/system/kubelet.service.d/*.conf", "/etc/default/kubelet", "/etc/sysconfig/kubelet"}

func checkUnwatched(f *fact.Facts) ([]rule.Finding, error) {
	var all []rule.Finding
	containers := f.Containers()
	for _, c := range containers {
		if name := offIn(c); name != "" {
			value, _ := c.Env(name)
			all = append(all, waiting(c.EnvAt(name), c.Container.Name, c.Name, name+"="+value))
		}
	}
	files := 0
	for _, pattern := range kubeletFiles {
		for _, file := range f.FilesAt(pattern) {
			files++
			for i, line := range strings.Split(string(file.Object.Data), "\n") {
				if m := switchedOff.FindStringSubmatch(line); m != nil && !strings.HasPrefix(strings.TrimSpace(line), "#") {
					all = append(all, waiting(file.At.LineIn(i+1), "kubelet", "the kubelet of "+file.Object.Node, m[1]+m[2]))
				}
			}
		}
	}
	if len(containers)+files == 0 {
		return nil, fact.NotApplicable("no container and no settings of a kubelet are known")
	}
	return all, nil
}

// offIn is the variable by which a container switches the pings off; "" where none
// does. DISABLE_HTTP2 means that in parts of the cluster, and anything elsewhere.
func offIn(c fact.Component) string {
	if v, ok := c.Env(idleVariable); ok && strings.TrimLeft(v, "0") == "" && v != "" {
		return idleVariable
	}
	if v, _ := c.Env(disableVariable); v != "" && strings.HasSuffix(c.Pod.Namespace, "-system") {
		return disableVariable
	}
	return ""
}

func waiting(at fact.Location, key, who, setting string) rule.Finding {
	return rule.Finding{
		At: at, Key: key, What: fmt.Sprintf("%s has %s", who, setting),
		Effect: rule.Lasts("an apiserver that vanishes without closing connections", who+" waits for it", scenario.Retransmitted()),
		Remedy: fmt.Sprintf("# take %s out; without it a dead connection is left after %s", setting, scenario.Pinged(scenario.HTTP2Idle, scenario.HTTP2Ping).Max),
	}
}

package drill

import (
	"fmt"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// balancedByHAProxy says whether this run has HAProxy in the place of balancers.
func (e *engine) balancedByHAProxy() bool {
	return !e.agents && e.c.Balance.Without == scenario.ProfileHAProxy
}

// plainCommand writes the settings of HAProxy in the place of a site's balancer and
// returns its command line.
func (e *engine) plainCommand(p scenario.Process) ([]string, error) {
	var servers []string
	for _, site := range e.c.SiteNames() {
		servers = append(servers, e.apiservers[site].Address())
	}
	path, err := e.textFile(agentName(p)+".cfg", plainConfig(servers))
	if err != nil {
		return nil, err
	}
	return []string{gatewayProgram, "-W", "-db", "-f", path}, nil
}

// plainConfig is HAProxy as guides have it whose check is the word alone: a server
// is good that accepts. It answers for itself where a balancer does.
func plainConfig(servers []string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("defaults")
	line("  mode tcp")
	line("  timeout connect 5s")
	line("  timeout client 1h")
	line("  timeout server 1h")
	line("  option redispatch")
	line("frontend api")
	line("  bind %s", balanceListen)
	line("  default_backend apiservers")
	line("frontend health")
	line("  mode http")
	line("  bind %s", balanceTelemetry)
	line("  monitor-uri /healthz")
	line("backend apiservers")
	line("  balance roundrobin")
	line("  default-server check inter 3s fall 3 rise 2")
	for i, s := range servers {
		line("  server s%d %s", i+1, s)
	}
	return b.String()
}

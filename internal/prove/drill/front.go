package drill

import (
	"fmt"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Where the balancer of a machine serves at the held address, and people.
const (
	frontPort      = 7443
	frontTelemetry = "127.0.0.1:9447"
)

// frontConfig is that of the balancer of a machine: the apiservers of all sites,
// none preferred, since its clients stand anywhere.
func (e *engine) frontConfig(p scenario.Process) balanceConfig {
	var c balanceConfig
	f := balanceFrontend{Name: "kube-apiserver", Listen: []string{fmt.Sprintf("0.0.0.0:%d", frontPort)}}
	f.Backends.State = "none"
	for _, a := range e.lab.APIServers() {
		f.Backends.Static = append(f.Backends.Static, balanceBackend{Address: a.Address()})
	}
	pki := e.apiservers[p.Site].PKI()
	f.Check = &balanceCheck{Kind: "https", Path: "/readyz", CA: pki.CA, Cert: pki.KubeletCert, Key: pki.KubeletKey}
	c.Frontends = []balanceFrontend{f}
	c.Telemetry.Listen = frontTelemetry
	c.Control = "front-" + p.Node + ".sock"
	c.Log.Format = "json"
	return c
}

// haproxyConfig is HAProxy in its place, as guides have it: servers are asked
// every 3 s, three failures and two answers.
func haproxyConfig(servers []string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("defaults")
	line("  mode tcp")
	line("  timeout connect 5s")
	line("  timeout client 1h")
	line("  timeout server 1h")
	line("  option redispatch")
	line("frontend api")
	line("  bind *:%d", frontPort)
	line("  default_backend apiservers")
	line("backend apiservers")
	line("  balance roundrobin")
	line("  option httpchk GET /readyz")
	line("  default-server check check-ssl verify none inter 3s fall 3 rise 2")
	for i, s := range servers {
		line("  server s%d %s", i+1, s)
	}
	return b.String()
}

// haproxyCommand writes the settings of HAProxy and returns its command line.
func (e *engine) haproxyCommand(p scenario.Process) ([]string, error) {
	var servers []string
	for _, a := range e.lab.APIServers() {
		servers = append(servers, a.Address())
	}
	path, err := e.textFile("haproxy-"+p.Node+".cfg", haproxyConfig(servers))
	if err != nil {
		return nil, err
	}
	return []string{gatewayProgram, "-W", "-db", "-f", path}, nil
}

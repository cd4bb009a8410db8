package drill

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/frr"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
)

// Autonomous systems of the router and of the machines.
const (
	routerAS  = 65001
	machineAS = 65010
)

// anycastAddress is on no link, as an address that is announced should be
// (RFC 5737, TEST-NET-3).
var anycastAddress = netip.MustParseAddr("203.0.113.10")

// anycast says whether the address of the case is announced to a router.
func (e *engine) anycast() bool { return len(e.c.VIP.Nodes) > 0 && e.c.VIP.Anycast() }

// announcedWithin bounds how long the router may take to have all next hops after
// the machines have started. FRR's two ends try one another every 10 s or so.
const announcedWithin = time.Minute

// startAnycast has every machine answer, and the router spread over all of them.
func (e *engine) startAnycast(ctx context.Context) error {
	steps := []func(context.Context) error{e.makeStations, e.startRouter}
	if e.c.VIP.Pods() {
		steps = []func(context.Context) error{e.startIngress, e.startRouter}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	for _, name := range e.c.VIP.Nodes {
		p := scenario.NodeAgent(scenario.AgentVIP, name)
		if err := e.startAgent(ctx, p); err != nil {
			return err
		}
		if err := e.awaitReady(ctx, p); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, announcedWithin)
	defer cancel()
	return e.router.AwaitHops(ctx, anycastAddress, len(e.c.VIP.Nodes))
}

// startRouter has the router of the machines' site listen to them.
func (e *engine) startRouter(ctx context.Context) error {
	o := lab.RouterOptions{
		AS: routerAS, Hold: scenario.DefaultHold, MaxPaths: 8,
		Prefixes: []netip.Prefix{netip.PrefixFrom(anycastAddress, anycastAddress.BitLen())},
	}
	if e.agents && !e.c.VIP.BGP.NoBFD {
		o.BFD = &frr.BFD{Interval: scenario.BFDInterval, Multiplier: scenario.BFDMultiplier}
	}
	for _, name := range e.c.VIP.Nodes {
		node, err := e.lab.Node(name)
		if err != nil {
			return err
		}
		o.Neighbors = append(o.Neighbors, frr.Neighbor{Address: node.IP(), AS: machineAS})
	}
	var err error
	e.router, err = e.lab.StartRouter(ctx, e.c.VIP.Site(), o)
	return err
}

// startRouteProber watches the next hops in the router, beside the clients.
func (e *engine) startRouteProber(ctx context.Context) error {
	if !e.anycast() {
		return nil
	}
	name := "router-" + e.c.VIP.Site()
	return e.runProber(ctx, e.router, "probe-"+name, probe.Config{
		Control: probe.Control{Name: name + "/control"},
		Targets: []probe.Target{{Name: name, URL: "route://" + anycastAddress.String(), Interval: scenario.HopsInterval}},
	})
}

// vipBGP is how the agents announce.
type vipBGP struct {
	AS    uint32         `yaml:"as"`
	Peers []vipNeighbour `yaml:"peers"`
}

type vipNeighbour struct {
	Address string  `yaml:"address"`
	AS      uint32  `yaml:"as"`
	BFD     *vipBFD `yaml:"bfd,omitempty"`
}

type vipBFD struct {
	Interval   time.Duration `yaml:"interval"`
	Multiplier int           `yaml:"multiplier"`
}

// announceConfig adds to an agent's settings that it announces to the router.
func (e *engine) announceConfig(c *vipConfig, node string) {
	if e.c.VIP.Pods() {
		c.Groups, c.Services = nil, e.servicesConfig(node)
	} else {
		g := &c.Groups[0]
		g.Interface, g.Anycast, g.Announce = "lo", &struct{}{}, []string{"bgp"}
	}
	peer := vipNeighbour{Address: e.router.IP().String(), AS: routerAS}
	if !e.c.VIP.BGP.NoBFD {
		peer.BFD = &vipBFD{scenario.BFDInterval, scenario.BFDMultiplier}
	}
	c.BGP = &vipBGP{AS: machineAS, Peers: []vipNeighbour{peer}}
}

// frrCommand writes a script that does in the place of an agent what people do
// without one, and returns its command line: FRR with the timers of a guide, and a
// check every so often that withdraws the address when it has failed three times.
func (e *engine) frrCommand(p scenario.Process) ([]string, error) {
	node, err := e.lab.Node(p.Node)
	if err != nil {
		return nil, err
	}
	s := frrScript{
		dir: "frr-" + p.Node, address: anycastAddress.String(),
		config: frr.Config{
			AS: machineAS, RouterID: node.IP(), Neighbors: []frr.Neighbor{{Address: e.router.IP(), AS: routerAS}},
			Hold: scenario.DefaultHold, Announces: true,
		},
	}
	if e.c.VIP.Health == scenario.HealthAPIServer {
		pki := e.servers[p.Node].PKI()
		s.check = fmt.Sprintf("https://127.0.0.1:%d/readyz", lab.APIServerPort)
		s.credentials = fmt.Sprintf("--cacert %s --cert %s --key %s", pki.CA, pki.KubeletCert, pki.KubeletKey)
	}
	path, err := e.textFile("frr-"+p.Node+".sh", s.text())
	if err != nil {
		return nil, err
	}
	return []string{"/bin/sh", path}, nil
}

// frrScript is FRR on a machine.
type frrScript struct {
	dir, address string
	config       frr.Config
	// check is the URL that has to answer 200, "" without one.
	check, credentials string
}

// text is the script. It ends with its daemons, and they with it.
func (s frrScript) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("mkdir -p %s && cd %s || exit 1", s.dir, s.dir)
	line("ip address replace %s/32 dev lo || exit 1", s.address)
	line("cat >bgpd.conf <<'END'\n%sEND", s.config.BGPD())
	line(": >zebra.conf")
	line("trap 'wait; exit 0' TERM")
	for _, d := range []string{"zebra", "bgpd"} {
		line("setpriv --pdeathsig KILL --regid %s --clear-groups unshare --mount sh -c '%s' %s &", frr.Group, frr.Shell, strings.Join(frr.Arguments(d), " "))
	}
	line("until vtysh --vty_socket . -d bgpd -c 'show version' >/dev/null 2>&1; do sleep 0.1; done")
	line("tell() { vtysh --vty_socket . -d bgpd -c 'configure terminal' -c 'router bgp %d' -c 'address-family ipv4 unicast' -c \"$1 %s/32\"; }", s.config.AS, s.address)
	if s.check == "" {
		line("tell network")
		line("while :; do sleep 60 & wait $!; done")
		return b.String()
	}
	line("failed=%d announced=", scenario.PeerFall)
	line("while :; do")
	line("  if curl --silent --fail --output /dev/null --max-time 3 %s %s; then", s.credentials, s.check)
	line("    failed=0")
	line("    [ $announced ] || { tell network; announced=1; }")
	line("  else")
	line("    failed=$((failed + 1))")
	line("    if [ $failed -ge %d ] && [ $announced ]; then tell 'no network'; announced=; fi", scenario.PeerFall)
	line("  fi")
	line("  sleep %d & wait $!", int(scenario.PeerCheck.Seconds()))
	line("done")
	return b.String()
}

// announcerWords say who announces the address in a run, and by which timers.
func announcerWords(c *scenario.Case, agents bool) string {
	if agents {
		words := "`holdfast vip` by BGP with its defaults"
		if !c.VIP.BGP.NoBFD {
			words += fmt.Sprintf(" and BFD %s × %d", scenario.BFDInterval, scenario.BFDMultiplier)
		}
		return words
	}
	words := fmt.Sprintf("bgpd of FRR with a hold time of %s and no BFD", scenario.DefaultHold)
	if c.VIP.Health != "" {
		words += fmt.Sprintf(", and a check every %s of which %d have to fail", scenario.PeerCheck, scenario.PeerFall)
	}
	return words
}

package bgp

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/conf"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// session is one BGP session as its speaker is told to have it.
type session struct {
	who, peer       string
	hold, keepalive time.Duration
	bfd             bool
	// profile names the timers of BFD; "" for the speaker's defaults. file is the
	// frr.conf of a session of FRR, nil for others.
	profile string
	file    *fact.File
	// stale is how long the routers keep the routes of this speaker when it is gone,
	// by graceful restart; 0 without.
	stale time.Duration
	// speaker tells speakers apart, such as the node whose frr.conf it is.
	speaker string
	at      fact.Location
	remedy  string
}

func sessions(f *fact.Facts) []session {
	return append(append(fromFRR(f), fromMetalLB(f)...), fromKubeVIP(f)...)
}

// Defaults of FRR (bgpd/bgp_defaults, profile traditional; datacenter has 9/3), of
// MetalLB and of kube-vip.
const (
	frrHold, frrKeepalive = 180 * time.Second, 60 * time.Second
	metallbHold           = 90 * time.Second
	vipHold, vipKeepalive = 30 * time.Second, 10 * time.Second
)

func fromFRR(f *fact.Facts) []session {
	var all []session
	for _, file := range f.FilesAt("/etc/frr/frr.conf") {
		root := conf.FRR(file.Object.Data)
		for _, bgp := range root.All("router", "bgp") {
			for _, n := range bgp.All("neighbor") {
				if n.Word(2) == "remote-as" && !isGroup(bgp, n.Word(1)) || n.Word(2) == "peer-group" && n.Word(3) != "" {
					all = append(all, frrSession(file, bgp, n))
				}
			}
		}
	}
	return all
}

// isGroup says whether a name is that of a peer group, which is no neighbour itself.
func isGroup(bgp *conf.Block, name string) bool {
	for _, line := range bgp.All("neighbor", name, "peer-group") {
		if line.Word(3) == "" {
			return true
		}
	}
	return false
}

// frrSession is one neighbour, with what its peer group says.
func frrSession(file fact.Item[fact.File], bgp, n *conf.Block) session {
	peer := n.Word(1)
	s := session{
		file: file.Object, who: "FRR on " + file.Object.Node, peer: peer, hold: frrHold, keepalive: frrKeepalive, at: file.At.LineIn(n.Line),
		speaker: "frr/" + file.Object.Node, stale: frrStale(bgp),
		remedy: fmt.Sprintf("vtysh -c 'configure terminal' -c '%s' -c 'neighbor %s bfd' -c 'end' -c 'write'   # and the same on the other side", bgp.Text(), peer),
	}
	if t := bgp.First("timers", "bgp"); t != nil {
		s.timers(t.Word(2), t.Word(3))
	}
	names := []string{peer}
	if g := bgp.First("neighbor", peer, "peer-group"); g != nil && g.Word(3) != "" {
		names = []string{g.Word(3), peer}
	}
	for _, name := range names {
		for _, line := range bgp.All("neighbor", name) {
			switch line.Word(2) {
			case "bfd":
				s.bfd = true
				s.profile = line.After("profile")
			case "timers":
				s.timers(line.Word(3), line.Word(4))
			}
		}
	}
	return s
}

// defaultStale is the restart time that FRR tells its peers, which MetalLB keeps.
const defaultStale = 120 * time.Second

// frrStale is the restart time of a speaker with graceful restart.
func frrStale(bgp *conf.Block) time.Duration {
	var stale time.Duration
	for _, line := range bgp.All("bgp", "graceful-restart") {
		switch line.Word(2) {
		case "":
			stale = max(stale, defaultStale)
		case "restart-time":
			if d, err := conf.Seconds(line.Word(3)); err == nil {
				stale = d
			}
		}
	}
	if bgp.First("bgp", "graceful-restart") == nil || bgp.First("bgp", "graceful-restart-disable") != nil {
		return 0
	}
	return stale
}

func (s *session) timers(keepalive, hold string) {
	k, errK := conf.Seconds(keepalive)
	h, errH := conf.Seconds(hold)
	if errK == nil && errH == nil {
		s.keepalive, s.hold = k, h
	}
}

func fromMetalLB(f *fact.Facts) []session {
	var all []session
	for _, p := range f.CustomOf("metallb.io", "BGPPeer") {
		r := *p.Object
		s := session{
			who: "MetalLB", speaker: "metallb", peer: r.Text("spec", "peerAddress"), hold: metallbHold, bfd: r.Text("spec", "bfdProfile") != "", at: p.At.Field("spec", "peerAddress"),
			remedy: fmt.Sprintf("kubectl apply -f - <<E\napiVersion: metallb.io/v1beta1\nkind: BFDProfile\nmetadata: {name: fast, namespace: %[1]s}\nspec: {receiveInterval: 300, transmitInterval: 300, detectMultiplier: 3}\nE\n"+
				"kubectl -n %[1]s patch bgppeer %[2]s --type merge -p '{\"spec\":{\"bfdProfile\":\"fast\"}}'", p.At.Object.Namespace, p.At.Object.Name),
		}
		s.profile = r.Text("spec", "bfdProfile")
		if graceful, _ := r.Get("spec", "enableGracefulRestart").(bool); graceful {
			s.stale = defaultStale
		}
		if d, err := time.ParseDuration(r.Text("spec", "holdTime")); err == nil {
			s.hold = d
		}
		s.keepalive = s.hold / 3
		if d, err := time.ParseDuration(r.Text("spec", "keepaliveTime")); err == nil {
			s.keepalive = d
		}
		all = append(all, s)
	}
	return all
}

func fromKubeVIP(f *fact.Facts) []session {
	var all []session
	for _, c := range f.Components("kube-vip") {
		if on, _ := c.Env("bgp_enable"); on != "true" {
			continue
		}
		peers, _ := c.Env("bgp_peers")
		if peers == "" {
			peers, _ = c.Env("bgp_peeraddress")
		}
		for _, peer := range strings.Split(peers, ",") {
			all = append(all, vipSession(c, peer))
		}
	}
	return all
}

// vipSession is one of kube-vip's peers: address:AS:password:multihop:…;bfd_on;….
func vipSession(c fact.Component, peer string) session {
	s := session{
		who: strings.TrimSpace("kube-vip " + c.Node), peer: peer, hold: vipHold, keepalive: vipKeepalive,
		speaker: "kube-vip/" + c.Node, bfd: strings.Contains(peer, "bfd_on"), at: c.EnvAt("bgp_peers"),
		remedy: "holdfast vip run announces the address with BFD, see docs/guide/bgp.md; kube-vip's own BFD takes its times in microseconds and waits 30 s after each reset",
	}
	if i := strings.IndexByte(peer, ':'); i > 0 {
		s.peer = peer[:i]
	}
	hold, _ := c.Env("bgp_hold_time")
	keepalive, _ := c.Env("bgp_keepalive_interval")
	s.timers(keepalive, hold)
	return s
}

package lab

import (
	"fmt"
	"net/netip"
)

// plan is the address plan of a lab: what every interface is called and which
// addresses it has. Site N (from 1) owns 10.77.N.0/24 and fd77:N::/64, its
// router is .1, node i is .(10+i). The digits of an IPv6 group are those of the
// IPv4 byte, so that a1 is 10.77.1.11 and fd77:1::11. Links have a /31 of
// 10.78.0.0/16 and a /127 of fd78::/16 each.
type plan struct {
	sites []sitePlan
	links []linkPlan
}

type sitePlan struct {
	Site
	gate4, gate6 netip.Prefix // the router on the bridge
	nodes        []nodePlan
}

type nodePlan struct {
	name, site string
	ip4, ip6   netip.Addr
}

// linkPlan holds the ends in the order of Link.A, Link.B.
type linkPlan struct {
	Link
	ends [2]linkEnd
}

type linkEnd struct {
	site     string // where the interface is
	far      string // the site it leads to
	ifname   string
	ip4, ip6 netip.Prefix
}

// uplink is the name of the interface that leads to a site.
func uplink(site string) string { return "to-" + site }

func newPlan(s Spec) plan {
	var p plan
	for i, site := range s.Sites {
		n := i + 1
		sp := sitePlan{
			Site:  site,
			gate4: netip.MustParsePrefix(fmt.Sprintf("10.77.%d.1/24", n)),
			gate6: netip.MustParsePrefix(fmt.Sprintf("fd77:%d::1/64", n)),
		}
		for k := 1; k <= site.Nodes; k++ {
			sp.nodes = append(sp.nodes, nodePlan{
				name: fmt.Sprintf("%s%d", site.Name, k), site: site.Name,
				ip4: netip.MustParseAddr(fmt.Sprintf("10.77.%d.%d", n, 10+k)),
				ip6: netip.MustParseAddr(fmt.Sprintf("fd77:%d::%d", n, 10+k)),
			})
		}
		p.sites = append(p.sites, sp)
	}
	for i, l := range s.Links {
		p.links = append(p.links, linkPlan{l, [2]linkEnd{newEnd(i, 0, l.A, l.B), newEnd(i, 1, l.B, l.A)}})
	}
	return p
}

// newEnd plans one end of link number i: 128 links to a value of the third
// byte, which is enough for a full mesh of maxSites.
func newEnd(i, side int, site, far string) linkEnd {
	host := 2*(i%128) + side
	return linkEnd{
		site: site, far: far, ifname: uplink(far),
		ip4: netip.MustParsePrefix(fmt.Sprintf("10.78.%d.%d/31", i/128, host)),
		ip6: netip.MustParsePrefix(fmt.Sprintf("fd78:%x::%x/127", i/128, host)),
	}
}

func (p plan) site(name string) (sitePlan, bool) {
	for _, s := range p.sites {
		if s.Name == name {
			return s, true
		}
	}
	return sitePlan{}, false
}

func (p plan) node(name string) (nodePlan, bool) {
	for _, s := range p.sites {
		for _, n := range s.nodes {
			if n.name == name {
				return n, true
			}
		}
	}
	return nodePlan{}, false
}

func (p plan) nodes() []nodePlan {
	var all []nodePlan
	for _, s := range p.sites {
		all = append(all, s.nodes...)
	}
	return all
}

// link finds the link between two sites, whichever end is named first.
func (p plan) link(a, b string) (int, bool) {
	for i, l := range p.links {
		if l.A == a && l.B == b || l.A == b && l.B == a {
			return i, true
		}
	}
	return 0, false
}

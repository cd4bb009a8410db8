package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// bridgeName is the bridge of a site, portName a node's interface.
const (
	bridgeName = "lan"
	portName   = "eth0"
)

// router is the namespace in which a site's bridge and links meet.
type router struct {
	site  sitePlan
	space *space.Space
	nl    *netlink.Handle
	// rules is the nftables text in force, "" at first.
	rules string
}

// addressing keeps IPv6 quiet: no router advertisements, no duplicate address
// detection, which would delay every address by a second, and no redirects: a
// node that was told a shortcut would no longer ask its router.
var addressing = map[string]string{
	"net/ipv6/conf/all/accept_redirects":     "0",
	"net/ipv6/conf/default/accept_redirects": "0",
	"net/ipv6/conf/all/accept_dad":           "0",
	"net/ipv6/conf/default/accept_dad":       "0",
	"net/ipv6/conf/all/accept_ra":            "0",
	"net/ipv6/conf/default/accept_ra":        "0",
}

// forwarding makes a router. Conntrack has to remember connections for as long
// as a cut may last: it would forget a retransmitting TCP connection after 5
// minutes and then take it for new; and it must not adopt a connection in
// midstream. A UDP flow is forgotten after 30 s without a packet, as anywhere.
// ICMP errors are not rated, because each probe of a rejected path needs its
// own.
var forwarding = map[string]string{
	"net/ipv4/ip_forward":                                   "1",
	"net/ipv6/conf/all/forwarding":                          "1",
	"net/ipv4/conf/all/rp_filter":                           "0",
	"net/ipv4/conf/all/send_redirects":                      "0",
	"net/ipv4/conf/default/send_redirects":                  "0", // either one suffices to send
	"net/ipv4/icmp_ratelimit":                               "0",
	"net/ipv6/icmp/ratelimit":                               "0",
	"net/netfilter/nf_conntrack_tcp_loose":                  "0",
	"net/netfilter/nf_conntrack_tcp_be_liberal":             "1",
	"net/netfilter/nf_conntrack_tcp_timeout_max_retrans":    "86400",
	"net/netfilter/nf_conntrack_tcp_timeout_unacknowledged": "86400",
}

// sysctl writes settings of the namespace. One that this kernel does not have
// is left out.
func sysctl(s *space.Space, values map[string]string) error {
	return s.Do(func() error {
		for _, name := range sorted(values) {
			err := os.WriteFile("/proc/sys/"+name, []byte(values[name]), 0)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("set %s: %w", strings.ReplaceAll(name, "/", "."), err)
			}
		}
		return nil
	})
}

// newSpace makes a namespace with its loopback up and a netlink handle into it.
// hostname may be "".
func newSpace(hostname string, settings ...map[string]string) (*space.Space, *netlink.Handle, error) {
	s, err := space.NewNamed(hostname)
	if err != nil {
		return nil, nil, err
	}
	nl, err := netlink.NewHandleAt(netns.NsHandle(s.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		_ = s.Close()
		return nil, nil, fmt.Errorf("open netlink: %w", err)
	}
	err = setUp(nl, "lo")
	for _, values := range settings {
		if err == nil {
			err = sysctl(s, values)
		}
	}
	if err != nil {
		nl.Close()
		_ = s.Close()
		return nil, nil, err
	}
	return s, nl, nil
}

func setUp(nl *netlink.Handle, name string) error {
	link, err := nl.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", name, err)
	}
	if err := nl.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

func addAddr(nl *netlink.Handle, name string, prefixes ...netip.Prefix) error {
	link, err := nl.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", name, err)
	}
	for _, p := range prefixes {
		a := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		if err := nl.AddrAdd(link, a); err != nil {
			return fmt.Errorf("add %s to %s: %w", p, name, err)
		}
	}
	return nil
}

func addRoute(nl *netlink.Handle, name string, dst netip.Prefix, via netip.Addr) error {
	link, err := nl.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", name, err)
	}
	r := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(dst.Masked()), Gw: via.AsSlice()}
	if err := nl.RouteAdd(r); err != nil {
		return fmt.Errorf("route %s through %s: %w", dst.Masked(), name, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func newRouter(s sitePlan) (*router, error) {
	sp, nl, err := newSpace("", addressing, forwarding)
	if err != nil {
		return nil, fmt.Errorf("make router of %s: %w", s.Name, err)
	}
	r := &router{site: s, space: sp, nl: nl}
	if err := r.addBridge(); err != nil {
		r.close()
		return nil, fmt.Errorf("make router of %s: %w", s.Name, err)
	}
	return r, nil
}

func (r *router) addBridge() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = bridgeName
	if err := r.nl.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return fmt.Errorf("add bridge: %w", err)
	}
	if err := addAddr(r.nl, bridgeName, r.site.gate4, r.site.gate6); err != nil {
		return err
	}
	return setUp(r.nl, bridgeName)
}

func (r *router) close() {
	r.nl.Close()
	_ = r.space.Close()
}

// plug makes the namespace of a node and joins it to the site's bridge.
func (r *router) plug(p nodePlan) (*space.Space, error) {
	sp, nl, err := newSpace(p.name, addressing)
	if err != nil {
		return nil, fmt.Errorf("make node %s: %w", p.name, err)
	}
	defer nl.Close()
	if err := r.join(p, sp, nl); err != nil {
		_ = sp.Close()
		return nil, fmt.Errorf("make node %s: %w", p.name, err)
	}
	return sp, nil
}

func (r *router) join(p nodePlan, sp *space.Space, nl *netlink.Handle) error {
	bridge, err := r.nl.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("find bridge: %w", err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = p.name
	attrs.MasterIndex = bridge.Attrs().Index
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerNamespace = portName, netlink.NsFd(sp.Fd())
	if err := r.nl.LinkAdd(veth); err != nil {
		return fmt.Errorf("add veth: %w", err)
	}
	if err := setUp(r.nl, p.name); err != nil {
		return err
	}
	err = addAddr(nl, portName,
		netip.PrefixFrom(p.ip4, r.site.gate4.Bits()), netip.PrefixFrom(p.ip6, r.site.gate6.Bits()))
	if err != nil {
		return err
	}
	if err := setUp(nl, portName); err != nil {
		return err
	}
	if err := addRoute(nl, portName, netip.MustParsePrefix("0.0.0.0/0"), r.site.gate4.Addr()); err != nil {
		return err
	}
	return addRoute(nl, portName, netip.MustParsePrefix("::/0"), r.site.gate6.Addr())
}

// attach gives a link's interface its addresses and the route to the far site.
func (r *router) attach(here, there linkEnd, far sitePlan) error {
	if err := addAddr(r.nl, here.ifname, here.ip4, here.ip6); err != nil {
		return err
	}
	if err := setUp(r.nl, here.ifname); err != nil {
		return err
	}
	if err := addRoute(r.nl, here.ifname, far.gate4, there.ip4.Addr()); err != nil {
		return err
	}
	return addRoute(r.nl, here.ifname, far.gate6, there.ip6.Addr())
}

// load puts an nftables text in force.
func (r *router) load(rules string) error {
	if err := loadRules(r.space, rules); err != nil {
		return fmt.Errorf("load rules of router %s: %w", r.site.Name, err)
	}
	r.rules = rules
	return nil
}

// loadRules puts an nftables text in force in a namespace.
func loadRules(s *space.Space, rules string) error {
	return s.Do(func() error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(rules)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("run nft: %w: %s", err, strings.TrimSpace(string(out)))
		}
		return nil
	})
}

// AtRouter runs f in the network of a site's router: on the segment of the site's
// nodes, and beside their cluster. Sockets opened by f stay there.
func (l *Lab) AtRouter(site string, f func() error) error {
	r := l.routers[site]
	if r == nil {
		return fmt.Errorf("site %q is unknown: use %s", site, strings.Join(l.spec.siteNames(), ", "))
	}
	return r.space.Do(f)
}

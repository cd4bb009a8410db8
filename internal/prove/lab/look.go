package lab

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// HardwareAddr is the MAC address of the node's interface.
func (n *Node) HardwareAddr() (net.HardwareAddr, error) {
	var mac net.HardwareAddr
	err := n.Do(func() error {
		eth, err := net.InterfaceByName(portName)
		if err == nil {
			mac = eth.HardwareAddr
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find interface %s of %s: %w", portName, n.name, err)
	}
	return mac, nil
}

// Interface is the name of the node's interface on the bridge of its site.
func (n *Node) Interface() string { return portName }

// Has says whether an address is on the node's interface.
func (n *Node) Has(addr netip.Addr) (bool, error) {
	found := false
	err := n.withLinks(func(nl *netlink.Handle, eth netlink.Link) error {
		all, err := nl.AddrList(eth, unix.AF_UNSPEC)
		for _, a := range all {
			found = found || a.IP.Equal(addr.AsSlice())
		}
		return err
	})
	return found, err
}

// Neighbor is what the node's kernel believes of an address on its link: "" when
// it knows nothing, or knows that nobody answers.
func (n *Node) Neighbor(addr netip.Addr) (string, error) {
	var mac string
	err := n.withLinks(func(nl *netlink.Handle, eth netlink.Link) (err error) {
		mac, err = neighbor(nl, eth, addr)
		return err
	})
	return mac, err
}

// RouterNeighbor is the same for the router of a site, by whose entry clients in
// other sites reach the address.
func (l *Lab) RouterNeighbor(site string, addr netip.Addr) (string, error) {
	r := l.routers[site]
	if r == nil {
		return "", fmt.Errorf("site %q is unknown: use %s", site, strings.Join(l.spec.siteNames(), ", "))
	}
	bridge, err := r.nl.LinkByName(bridgeName)
	if err != nil {
		return "", fmt.Errorf("find bridge: %w", err)
	}
	return neighbor(r.nl, bridge, addr)
}

func neighbor(nl *netlink.Handle, on netlink.Link, addr netip.Addr) (string, error) {
	all, err := nl.NeighList(on.Attrs().Index, netlink.FAMILY_ALL)
	if err != nil {
		return "", fmt.Errorf("list neighbours: %w", err)
	}
	for _, n := range all {
		if n.IP.Equal(addr.AsSlice()) && n.State&(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) == 0 {
			return n.HardwareAddr.String(), nil
		}
	}
	return "", nil
}

// Forget takes from the node what a loss of power takes: addresses that the lab
// did not give it, rules and what it believed of its neighbours. Its processes
// must have ended.
func (n *Node) Forget() error {
	n.lab.journal.write("node %s: foreign addresses, rules and neighbours removed", n.name)
	err := n.withLinks(func(nl *netlink.Handle, eth netlink.Link) error {
		all, err := nl.AddrList(eth, unix.AF_UNSPEC)
		if err != nil {
			return err
		}
		for _, a := range all {
			if a.IP.Equal(n.ip4.AsSlice()) || a.IP.Equal(n.ip6.AsSlice()) || a.IP.IsLinkLocalUnicast() {
				continue
			}
			if err := nl.AddrDel(eth, &a); err != nil {
				return fmt.Errorf("remove %s: %w", a.IPNet, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("forget of %s: %w", n.name, err)
	}
	return n.Do(func() error {
		for _, argv := range [][]string{{"nft", "flush", "ruleset"}, {"ip", "neigh", "flush", "all"}} {
			if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("forget of %s: %s: %w: %s", n.name, argv[0], err, strings.TrimSpace(string(out)))
			}
		}
		return nil
	})
}

// withLinks gives f a netlink handle into the node, and its interface.
func (n *Node) withLinks(f func(*netlink.Handle, netlink.Link) error) error {
	nl, err := netlink.NewHandleAt(netns.NsHandle(n.space.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink in %s: %w", n.name, err)
	}
	defer nl.Close()
	eth, err := nl.LinkByName(portName)
	if err != nil {
		return fmt.Errorf("find interface %s of %s: %w", portName, n.name, err)
	}
	return f(nl, eth)
}

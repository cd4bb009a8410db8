package lab

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// PodCIDR is the range of all pods, as flannel and kubeadm's examples have it.
// Node number N, counted over all sites from 1, owns 10.244.N.0/24.
var PodCIDR = netip.MustParsePrefix("10.244.0.0/16")

const (
	// overlayName is the VXLAN device of a node, overlayID its network
	// (flannel's default, as is the shape of what follows: one route, one
	// neighbour and one forwarding entry per other node, and no learning).
	overlayName = "vxlan.1"
	overlayID   = 1
	// podMTU leaves room for VXLAN over IPv4 in Ethernet's 1500 bytes: outer IP
	// 20, UDP 8, VXLAN 8, inner Ethernet 14.
	podMTU = 1450
	// maxKubernetesNodes is how many /24 of PodCIDR have a number.
	maxKubernetesNodes = 255
)

// podNet is a node's part of the overlay.
type podNet struct {
	node nodePlan
	// pods is the range of the node, device the address of its VXLAN device,
	// which is the first of the range; pods begin at the second, their gateway.
	pods   netip.Prefix
	device netip.Addr
	mac    net.HardwareAddr
}

// overlay plans the pod network of all nodes.
func (p plan) overlay() ([]podNet, error) {
	var all []podNet
	for i, n := range p.nodes() {
		number := i + 1
		if number > maxKubernetesNodes {
			return nil, fmt.Errorf("the lab has %d nodes: Kubernetes in a lab has at most %d", len(p.nodes()), maxKubernetesNodes)
		}
		first := netip.AddrFrom4([4]byte{10, 244, byte(number), 0})
		all = append(all, podNet{
			node: n, pods: netip.PrefixFrom(first, 24), device: first,
			// Locally administered (IEEE 802, bit 1 of the first byte).
			mac: net.HardwareAddr{0x0a, 0x58, 10, 244, byte(number), 0},
		})
	}
	return all, nil
}

// routing lets a node forward its pods' packets. Replies take the way of the
// node's routes, whatever interface the request came in by.
var routing = map[string]string{
	"net/ipv4/ip_forward":              "1",
	"net/ipv4/conf/all/rp_filter":      "0",
	"net/ipv4/conf/default/rp_filter":  "0",
	"net/ipv4/conf/all/send_redirects": "0",
}

// addOverlay joins the node to the overlay and hides its pods from everything
// that is not one, as a CNI's masquerade does.
func (n *Node) addOverlay(all []podNet) error {
	if err := sysctl(n.space, routing); err != nil {
		return err
	}
	nl, err := netlink.NewHandleAt(netns.NsHandle(n.space.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer nl.Close()
	for _, own := range all {
		if own.node.name != n.name {
			continue
		}
		if err := own.addDevice(nl); err != nil {
			return err
		}
	}
	device, err := nl.LinkByName(overlayName)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", overlayName, err)
	}
	for _, peer := range all {
		if peer.node.name == n.name {
			continue
		}
		if err := peer.reach(nl, device.Attrs().Index); err != nil {
			return err
		}
	}
	return loadRules(n.space, masquerade)
}

func (p podNet) addDevice(nl *netlink.Handle) error {
	port, err := nl.LinkByName(portName)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", portName, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = overlayName, podMTU, p.mac
	device := &netlink.Vxlan{
		LinkAttrs: attrs, VxlanId: overlayID, Port: vxlanPort,
		VtepDevIndex: port.Attrs().Index, SrcAddr: p.node.ip4.AsSlice(),
	}
	if err := nl.LinkAdd(device); err != nil {
		return fmt.Errorf("add interface %s: %w", overlayName, err)
	}
	if err := addAddr(nl, overlayName, netip.PrefixFrom(p.device, 32)); err != nil {
		return err
	}
	return setUp(nl, overlayName)
}

// reach tells a node the way to the pods of another one: p's range is behind
// the address p.device, which has the MAC p.mac, which is at p's node.
func (p podNet) reach(nl *netlink.Handle, device int) error {
	err := nl.NeighSet(&netlink.Neigh{
		LinkIndex: device, State: netlink.NUD_PERMANENT, Type: unix.RTN_UNICAST,
		IP: p.device.AsSlice(), HardwareAddr: p.mac,
	})
	if err != nil {
		return fmt.Errorf("add neighbour %s: %w", p.device, err)
	}
	err = nl.NeighSet(&netlink.Neigh{
		LinkIndex: device, State: netlink.NUD_PERMANENT, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF,
		IP: p.node.ip4.AsSlice(), HardwareAddr: p.mac,
	})
	if err != nil {
		return fmt.Errorf("add forwarding entry of %s: %w", p.node.name, err)
	}
	r := &netlink.Route{LinkIndex: device, Dst: ipNet(p.pods), Gw: p.device.AsSlice(), Flags: int(netlink.FLAG_ONLINK)}
	if err := nl.RouteAdd(r); err != nil {
		return fmt.Errorf("route %s: %w", p.pods, err)
	}
	return nil
}

// masquerade gives packets that leave the pods' range the node's address. It
// stands after kube-proxy's translation of Services, which has the same hook,
// because what matters is where a packet really goes.
var masquerade = fmt.Sprintf(`table ip lab-pods
delete table ip lab-pods
table ip lab-pods {
	chain postrouting {
		type nat hook postrouting priority srcnat + 10; policy accept;
		ip saddr %[1]s ip daddr != %[1]s masquerade
	}
}
`, PodCIDR)

// cniConfig is what containerd hands to the plugins: a veth pair per pod with
// routes instead of a bridge, addresses from files, and host ports.
const cniConfig = `{
  "cniVersion": "0.4.0",
  "name": "lab",
  "plugins": [
    {
      "type": "ptp",
      "mtu": %d,
      "ipam": {
        "type": "host-local",
        "dataDir": "/var/lib/cni/networks",
        "ranges": [[{"subnet": %q}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

package link

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// alias marks an interface as ours, with its owner; `ip link` shows it.
const alias = "holdfast virtual address of "

// VirtualPrefix begins the names of virtual interfaces.
const VirtualPrefix = "hvip"

// addressGenNone keeps the kernel from giving an interface a link-local address
// of its own, whose reports and solicitations would carry the virtual hardware
// address from every node and confuse switches.
const addressGenNone = 1

// Virtual is a macvlan interface with a hardware address that moves with the
// virtual address, so that no neighbour has to learn anything (RFC 9568 section
// 7.3). It is down while the address is elsewhere: a backup does not take what is
// sent to the virtual hardware address (section 6.4.2).
type Virtual struct {
	Name, Parent string
	MAC          net.HardwareAddr
	// Owner is who may remove it: an agent that runs beside it has another name.
	Owner string
}

// VirtualName returns a name for the interface of a virtual router on its parent,
// the same in every run. It fits into the 15 bytes that a name may have.
func VirtualName(family, vrid int, parent string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(parent))
	return fmt.Sprintf("%s%d-%d-%04x", VirtualPrefix, family, vrid, sum.Sum32()&0xffff)
}

// settings of a virtual interface, by their number in linux/ip.h. It asks and
// answers for its own addresses only: those of its parent have another hardware
// address. What arrives there is let in, though the way back leads through the
// parent (rp_filter 2).
var settings = map[uint16]uint32{8: 2, 18: 2, 19: 1} // rp_filter, arp_announce, arp_ignore

// AddVirtual makes the interface, down. One that an earlier run left is replaced;
// one of that name that is somebody else's is an error.
//
// Its parent has to be kept from answering for its addresses, and router
// advertisements from its stack: package gate does both.
func (h *Handle) AddVirtual(v Virtual) error {
	if err := h.RemoveVirtual(v); err != nil {
		return err
	}
	index, err := h.index(v.Parent)
	if err != nil {
		return err
	}
	l := &netlink.Macvlan{
		LinkAttrs: netlink.LinkAttrs{Name: v.Name, ParentIndex: index, HardwareAddr: v.MAC},
		Mode:      netlink.MACVLAN_MODE_BRIDGE,
	}
	if err := h.link.LinkAdd(l); err != nil {
		if errors.Is(err, unix.EOPNOTSUPP) {
			err = fmt.Errorf("%w; the kernel needs macvlan (modprobe macvlan), or take virtualMAC out of the settings", err)
		}
		return fmt.Errorf("add macvlan %s to %s: %w%s", v.Name, v.Parent, err, remedy(err))
	}
	// Not all kernels take the alias at birth.
	err = h.link.LinkSetAlias(l, alias+v.Owner)
	if err == nil {
		// Without IPv6 in the kernel there is nothing to switch off.
		if err = h.link.LinkSetIP6AddrGenMode(l, addressGenNone); errors.Is(err, unix.EAFNOSUPPORT) {
			err = nil
		}
	}
	if err == nil {
		err = h.configure(l.Attrs().Index)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("set up macvlan %s: %w", v.Name, err), h.link.LinkDel(l))
	}
	return nil
}

// configure does what writing below /proc/sys would do, where that is read-only
// as in most containers.
func (h *Handle) configure(index int) error {
	m := nl.NewIfInfomsg(unix.AF_UNSPEC)
	m.Index = int32(index)
	req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	req.AddData(m)
	spec := nl.NewRtAttr(unix.IFLA_AF_SPEC|unix.NLA_F_NESTED, nil)
	conf := spec.AddRtAttr(unix.AF_INET|unix.NLA_F_NESTED, nil).AddRtAttr(unix.IFLA_INET_CONF|unix.NLA_F_NESTED, nil)
	for id, v := range settings {
		conf.AddRtAttr(int(id), nl.Uint32Attr(v))
	}
	req.AddData(spec)
	return h.do(req)
}

// Raise sets a virtual interface up, which it may be already. The error wraps
// ErrNoInterface if it is not there any more.
func (h *Handle) Raise(v Virtual) error {
	l, err := h.find(v.Name)
	if err == nil && l.Attrs().Flags&net.FlagUp == 0 {
		err = h.link.LinkSetUp(l)
	}
	if err != nil {
		return fmt.Errorf("set %s up: %w%s", v.Name, err, remedy(err))
	}
	return nil
}

// Lower sets it down. That it is not there is no error.
func (h *Handle) Lower(v Virtual) error {
	l, err := h.find(v.Name)
	if errors.Is(err, ErrNoInterface) {
		return nil
	}
	if err == nil {
		err = h.link.LinkSetDown(l)
	}
	if err != nil {
		return fmt.Errorf("set %s down: %w%s", v.Name, err, remedy(err))
	}
	return nil
}

// RemoveVirtual removes an interface that AddVirtual has made. That it is not
// there is no error.
func (h *Handle) RemoveVirtual(v Virtual) error {
	l, err := h.find(v.Name)
	switch {
	case errors.Is(err, ErrNoInterface):
		return nil
	case err != nil:
		return err
	case l.Attrs().Alias != alias+v.Owner:
		return fmt.Errorf("interface %s exists and is not ours; remove it (ip link delete %s), or stop the agent that has it", v.Name, v.Name)
	}
	if err := h.link.LinkDel(l); err != nil {
		return fmt.Errorf("remove macvlan %s: %w", v.Name, err)
	}
	return nil
}

// CleanVirtual removes all virtual interfaces of an owner, and returns their
// names.
func (h *Handle) CleanVirtual(owner string) ([]string, error) {
	all, err := h.link.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var gone []string
	var errs []error
	for _, l := range all {
		if l.Attrs().Alias != alias+owner {
			continue
		}
		if err := h.link.LinkDel(l); err != nil {
			errs = append(errs, fmt.Errorf("remove macvlan %s: %w", l.Attrs().Name, err))
			continue
		}
		gone = append(gone, l.Attrs().Name)
	}
	return gone, errors.Join(errs...)
}

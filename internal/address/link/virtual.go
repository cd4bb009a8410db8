package link

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// alias marks an interface as ours; `ip link` shows it.
const alias = "holdfast virtual address"

// addressGenNone keeps the kernel from giving an interface a link-local address
// of its own, whose reports and solicitations would carry the virtual hardware
// address from every node and confuse switches.
const addressGenNone = 1

// AddVirtual makes a macvlan interface with a hardware address that moves with
// the virtual address, so that no neighbour has to learn anything (RFC 9568
// section 7.3), and sets it up. One that an earlier run left is replaced; one of
// that name that is somebody else's is an error.
//
// The addresses of the parent stay on the parent, which has to be kept from
// answering for those on this one, and the other way round: see SetARP.
func (h *Handle) AddVirtual(name, parent string, mac net.HardwareAddr) error {
	if err := h.RemoveVirtual(name); err != nil {
		return err
	}
	index, err := h.index(parent)
	if err != nil {
		return err
	}
	l := &netlink.Macvlan{
		LinkAttrs: netlink.LinkAttrs{Name: name, ParentIndex: index, HardwareAddr: mac, Alias: alias},
		Mode:      netlink.MACVLAN_MODE_BRIDGE,
	}
	if err := h.link.LinkAdd(l); err != nil {
		return fmt.Errorf("add macvlan %s to %s: %w%s", name, parent, err, remedy(err))
	}
	// Not all kernels take the alias at birth.
	err = h.link.LinkSetAlias(l, alias)
	if err == nil {
		// Without IPv6 in the kernel there is nothing to switch off.
		if err = h.link.LinkSetIP6AddrGenMode(l, addressGenNone); errors.Is(err, unix.EAFNOSUPPORT) {
			err = nil
		}
	}
	if err == nil {
		err = h.link.LinkSetUp(l)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("set up macvlan %s: %w", name, err), h.link.LinkDel(l))
	}
	return nil
}

// RemoveVirtual removes an interface that AddVirtual has made. That it is not
// there is no error.
func (h *Handle) RemoveVirtual(name string) error {
	l, err := h.find(name)
	switch {
	case errors.Is(err, ErrNoInterface):
		return nil
	case err != nil:
		return err
	case l.Attrs().Alias != alias:
		return fmt.Errorf("interface %s exists and is not ours; choose another name for the virtual interface, or remove it", name)
	}
	if err := h.link.LinkDel(l); err != nil {
		return fmt.Errorf("remove macvlan %s: %w", name, err)
	}
	return nil
}

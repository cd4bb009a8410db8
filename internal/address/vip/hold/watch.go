package hold

import (
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Facts are what the kernel says of an interface.
type Facts struct {
	Index int // 0: there is none of that name
	// Up: it is up and has its carrier.
	Up bool
	// Four and Six are the machine's own primary addresses; Six is link-local
	// where there is one (RFC 9568 section 5.1.2.2).
	Four, Six netip.Addr
}

// notOwn are flags of addresses that a machine does not speak from: not yet, not at
// all, or not any more. Those of Services, which come and go, are deprecated.
const notOwn = unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED | unix.IFA_F_DEPRECATED

// Look asks the kernel. Addresses that are held, or may be, are not the
// machine's own.
func Look(iface string, held []netip.Addr) Facts {
	l, err := netlink.LinkByName(iface)
	if err != nil {
		return Facts{}
	}
	a := l.Attrs()
	f := Facts{Index: a.Index, Up: a.RawFlags&unix.IFF_UP != 0 && a.RawFlags&unix.IFF_RUNNING != 0}
	all, err := netlink.AddrList(l, netlink.FAMILY_ALL)
	if err != nil {
		return f
	}
	for _, x := range all {
		ip, ok := netip.AddrFromSlice(x.IP)
		ip = ip.Unmap()
		if !ok || slices.Contains(held, ip) || x.Flags&notOwn != 0 {
			continue
		}
		switch {
		case ip.Is4() && !f.Four.IsValid():
			f.Four = ip
		case ip.Is6() && (!f.Six.IsValid() || ip.IsLinkLocalUnicast() && !f.Six.IsLinkLocalUnicast()):
			f.Six = ip
		}
	}
	return f
}

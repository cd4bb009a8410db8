package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Address is one that an agent puts on an interface.
type Address struct {
	Prefix    netip.Prefix // usually of one address: /32, /128
	Interface string
	// Lifetime is for how long it stays without a Refresh; whole seconds,
	// default 2 s, the shortest that survives a refresh every half second on a
	// kernel that counts in seconds.
	Lifetime time.Duration
	// Global gives an IPv4 address the scope of an ordinary one, for software
	// that lists only those. It may then be chosen as a source.
	Global bool
}

func (a Address) lifetime() time.Duration {
	if a.Lifetime < time.Second {
		return 2 * time.Second
	}
	return a.Lifetime
}

// Foreign is the error about an address that somebody else has put on this machine.
type Foreign struct {
	Prefix    netip.Prefix
	Interface string
}

func (e *Foreign) Error() string {
	return fmt.Sprintf("address %s is on %s already, put there by somebody else; remove it (ip address delete %s dev %s) or take it out of the settings",
		e.Prefix.Addr(), e.Interface, e.Prefix, e.Interface)
}

// ErrNoInterface is wrapped where an interface is missing.
var ErrNoInterface = errors.New("no such interface")

// Handle changes addresses. It is safe for concurrent use.
type Handle struct {
	raw  map[int]*nl.SocketHandle
	link *netlink.Handle
}

// Open opens a Handle.
func Open() (*Handle, error) {
	socket, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	if err := socket.SetReceiveTimeout(&unix.Timeval{Sec: 10}); err != nil {
		socket.Close()
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	link, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		socket.Close()
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return &Handle{raw: map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: socket}}, link: link}, nil
}

// Close closes it. Addresses stay until their lifetimes end.
func (h *Handle) Close() {
	h.raw[unix.NETLINK_ROUTE].Close()
	h.link.Close()
}

// index finds an interface.
func (h *Handle) index(name string) (int, error) {
	l, err := h.find(name)
	if err != nil {
		return 0, err
	}
	return l.Attrs().Index, nil
}

func (h *Handle) find(name string) (netlink.Link, error) {
	l, err := h.link.LinkByName(name)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		return nil, fmt.Errorf("find interface %s: %w", name, ErrNoInterface)
	}
	if err != nil {
		return nil, fmt.Errorf("find interface %s: %w", name, err)
	}
	return l, nil
}

// Add puts the address on its interface, or refreshes it. It returns *Foreign
// if somebody else has put it on any interface of the machine.
func (h *Handle) Add(a Address) error {
	all, err := h.List()
	if err != nil {
		return err
	}
	if err := h.foreign(all, a.Prefix.Addr()); err != nil {
		return err
	}
	return h.Refresh(a)
}

// foreign returns the *Foreign about an address, if there is one.
func (h *Handle) foreign(all []Entry, addr netip.Addr) error {
	for _, e := range all {
		if e.Prefix.Addr() != addr || e.Ours() {
			continue
		}
		name := fmt.Sprintf("interface %d", e.Index)
		if l, err := h.link.LinkByIndex(e.Index); err == nil {
			name = l.Attrs().Name
		}
		return &Foreign{Prefix: e.Prefix, Interface: name}
	}
	return nil
}

// Refresh begins the lifetime anew, and puts an address back that was removed.
// Unlike Add it does not look whose it is.
func (h *Handle) Refresh(a Address) error {
	index, err := h.index(a.Interface)
	if err != nil {
		return err
	}
	if err := h.do(a.entry(index).request(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE)); err != nil {
		return fmt.Errorf("put %s on %s: %w%s", a.Prefix, a.Interface, err, remedy(err))
	}
	return nil
}

func remedy(err error) string {
	if errors.Is(err, unix.EPERM) {
		return "; the agent needs CAP_NET_ADMIN"
	}
	return ""
}

// Remove takes the address off its interface. That it is not there, or the
// interface is not, is no error.
func (h *Handle) Remove(a Address) error {
	index, err := h.index(a.Interface)
	if errors.Is(err, ErrNoInterface) {
		return nil
	}
	if err == nil {
		err = h.remove(a.entry(index))
	}
	if err != nil {
		return fmt.Errorf("take %s off %s: %w%s", a.Prefix, a.Interface, err, remedy(err))
	}
	return nil
}

func (h *Handle) remove(e Entry) error {
	err := h.do(e.request(unix.RTM_DELADDR, 0))
	if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// Clean takes those of addrs off the machine that an earlier run left on any
// interface. It returns what it took off, and *Foreign errors, joined, for those
// that are somebody else's.
func (h *Handle) Clean(addrs ...netip.Addr) ([]Entry, error) {
	all, err := h.List()
	if err != nil {
		return nil, err
	}
	var gone []Entry
	var errs []error
	for _, addr := range addrs {
		errs = append(errs, h.foreign(all, addr))
	}
	for _, e := range all {
		if !slices.Contains(addrs, e.Prefix.Addr()) || !e.Ours() {
			continue
		}
		if err := h.remove(e); err != nil {
			errs = append(errs, fmt.Errorf("take %s off interface %d: %w", e.Prefix, e.Index, err))
			continue
		}
		gone = append(gone, e)
	}
	return gone, errors.Join(errs...)
}

// List lists all addresses of the machine.
func (h *Handle) List() ([]Entry, error) {
	var all []Entry
	for range 5 {
		var bad error
		all = all[:0]
		req := nl.NewNetlinkRequest(unix.RTM_GETADDR, unix.NLM_F_DUMP)
		req.AddData(nl.NewIfAddrmsg(unix.AF_UNSPEC))
		req.Sockets = h.raw
		err := req.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWADDR, func(b []byte) bool {
			e, err := parseEntry(b)
			if bad = err; err == nil {
				all = append(all, e)
			}
			return bad == nil
		})
		switch {
		case errors.Is(err, netlink.ErrDumpInterrupted):
			continue // something changed meanwhile, and one may be missing
		case errors.Join(err, bad) != nil:
			return nil, fmt.Errorf("list addresses: %w", errors.Join(err, bad))
		}
		return all, nil
	}
	return nil, errors.New("list addresses: they never stopped changing")
}

func (h *Handle) do(req *nl.NetlinkRequest) error {
	req.Sockets = h.raw
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// Interfaces lists the interfaces of the machine.
func (h *Handle) Interfaces() ([]Interface, error) {
	all, err := h.link.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	out := make([]Interface, 0, len(all))
	for _, l := range all {
		out = append(out, describe(l.Attrs()))
	}
	return out, nil
}

func describe(a *netlink.LinkAttrs) Interface {
	return Interface{
		Index: a.Index, Name: a.Name, MAC: a.HardwareAddr.String(),
		Up:      a.Flags&net.FlagUp != 0,
		Carrier: a.RawFlags&unix.IFF_LOWER_UP != 0 && a.OperState != netlink.OperDown,
	}
}

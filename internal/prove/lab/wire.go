package lab

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/delay"
)

// The ways a link is made.
const (
	methodVeth  = "veth"
	methodNetem = "netem"
	methodTun   = "tun"
)

// wire is a link between two routers as it is made.
type wire interface {
	// set changes what the wire does to packets. It is an error to ask for
	// something the method cannot do.
	set(Link) error
	method() string
	close() error
}

// wireMethod chooses how to make a link. Only a link without delay can do
// without netem and TUN.
func wireMethod(l Link, netem bool) string {
	switch {
	case netem:
		return methodNetem
	case l.Delay == 0 && l.Jitter == 0:
		return methodVeth
	}
	return methodTun
}

// hasNetem tries whether this kernel has the netem queueing discipline.
func hasNetem() (bool, error) {
	sp, nl, err := newSpace("")
	if err != nil {
		return false, err
	}
	defer func() {
		nl.Close()
		_ = sp.Close()
	}()
	lo, err := nl.LinkByName("lo")
	if err != nil {
		return false, fmt.Errorf("find loopback: %w", err)
	}
	attrs := netlink.QdiscAttrs{LinkIndex: lo.Attrs().Index, Parent: netlink.HANDLE_ROOT}
	return nl.QdiscAdd(netlink.NewNetem(attrs, netlink.NetemQdiscAttrs{Latency: 1000})) == nil, nil
}

// openWire makes the link between its two routers with the given method.
func openWire(method string, p plan, l linkPlan, routers map[string]*router) (wire, error) {
	a, b := routers[l.A], routers[l.B]
	var w wire
	var err error
	if method == methodTun {
		w, err = openTun(l, a, b)
	} else {
		w, err = openVeth(l, a, b, method == methodNetem)
	}
	if err != nil {
		return nil, fmt.Errorf("make link %s-%s: %w", l.A, l.B, err)
	}
	siteA, _ := p.site(l.A)
	siteB, _ := p.site(l.B)
	err = a.attach(l.ends[0], l.ends[1], siteB)
	if err == nil {
		err = b.attach(l.ends[1], l.ends[0], siteA)
	}
	if err == nil {
		err = w.set(l.Link)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make link %s-%s: %w", l.A, l.B, err), w.close())
	}
	return w, nil
}

// vethWire is a veth pair with a queueing discipline on each end.
type vethWire struct {
	ends  [2]vethEnd
	netem bool
}

type vethEnd struct {
	nl    *netlink.Handle
	name  string
	index int
}

func openVeth(l linkPlan, a, b *router, netem bool) (*vethWire, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = l.ends[0].ifname
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerNamespace = l.ends[1].ifname, netlink.NsFd(b.space.Fd())
	if err := a.nl.LinkAdd(veth); err != nil {
		return nil, fmt.Errorf("add veth: %w", err)
	}
	w := &vethWire{netem: netem}
	for i, r := range []*router{a, b} {
		link, err := r.nl.LinkByName(l.ends[i].ifname)
		if err != nil {
			return nil, fmt.Errorf("find interface %s: %w", l.ends[i].ifname, err)
		}
		w.ends[i] = vethEnd{r.nl, l.ends[i].ifname, link.Attrs().Index}
	}
	return w, nil
}

func (w *vethWire) method() string {
	if w.netem {
		return methodNetem
	}
	return methodVeth
}

func (w *vethWire) set(l Link) error {
	if !w.netem && wireMethod(l, false) != methodVeth {
		return fmt.Errorf("a veth pair has no delay, %v asked", l.Delay+l.Jitter)
	}
	for _, e := range w.ends {
		if err := e.shape(l, w.netem); err != nil {
			return fmt.Errorf("shape %s: %w", e.name, err)
		}
	}
	return nil
}

func (e vethEnd) shape(l Link, netem bool) error {
	attrs := netlink.QdiscAttrs{LinkIndex: e.index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
	switch {
	case netem:
		return e.nl.QdiscReplace(netlink.NewNetem(attrs, netemAttrs(l)))
	case l.Rate == 0:
		// Removing the root brings the interface's own noqueue back; that
		// there was none to remove is fine.
		_ = e.nl.QdiscDel(&netlink.GenericQdisc{QdiscAttrs: attrs})
		return nil
	default:
		return e.nl.QdiscReplace(tbf(attrs, l.Rate))
	}
}

// netemAttrs translates a link. The queue holds delay.MaxPackets, because
// netem counts packets under way against its limit and drops beyond it.
func netemAttrs(l Link) netlink.NetemQdiscAttrs {
	return netlink.NetemQdiscAttrs{
		Latency: uint32(l.Delay.Microseconds()),
		Jitter:  uint32(l.Jitter.Microseconds()),
		Loss:    float32(l.Loss * 100),
		Limit:   delay.MaxPackets,
		Rate64:  l.Rate / 8,
	}
}

// tbf is a token bucket of the given rate in bits per second. Its burst is
// what the rate sends in 4 ms, one tick of a kernel with HZ=250, and no less
// than ten full packets; tc-tbf(8) explains why less throttles the rate.
func tbf(attrs netlink.QdiscAttrs, rate uint64) *netlink.Tbf {
	bytes := rate / 8
	burst := max(bytes/250, 15_000)
	limit := burst + bytes*uint64(delay.Backlog/time.Millisecond)/1000
	return &netlink.Tbf{
		QdiscAttrs: attrs,
		Rate:       bytes,
		Limit:      uint32(min(limit, math.MaxUint32)),
		Buffer:     netlink.Xmittime(bytes, uint32(min(burst, math.MaxUint32))),
	}
}

func (w *vethWire) close() error {
	e := w.ends[0] // removing one end removes the pair
	link, err := e.nl.LinkByName(e.name)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", e.name, err)
	}
	if err := e.nl.LinkDel(link); err != nil {
		return fmt.Errorf("remove interface %s: %w", e.name, err)
	}
	return nil
}

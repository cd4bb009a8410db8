package e2e

import (
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
	"github.com/holdfast-ha/holdfast/test/caller"
)

// far are addresses beyond the virtual router, on the second machine.
var far = []netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("2001:db8:f::1")}

// behind puts the far addresses on a machine, reached by one as the router from
// the client, whose next hops are the virtual addresses.
func (w *wire) behind(router, machine int) {
	w.t.Helper()
	own := w.segment.Station(machine)
	lo, err := own.Netlink.LinkByName("lo")
	if err != nil {
		w.t.Fatal(err)
	}
	for i, a := range far {
		all := &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
		if err := own.Netlink.AddrAdd(lo, &netlink.Addr{IPNet: all, Flags: unix.IFA_F_NODAD}); err != nil {
			w.t.Fatal(err)
		}
		for s, hop := range map[*segment.Station]netip.Addr{
			w.segment.Station(router):         []netip.Addr{own.Four, own.Six}[i],
			w.segment.Station(w.machines + 1): w.addresses[i],
		} {
			eth, err := s.Netlink.LinkByName(segment.Interface)
			if err != nil {
				w.t.Fatal(err)
			}
			if err := s.Netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: hop.AsSlice(), Dst: all}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	err = w.segment.Station(router).Do(func() error {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
			return err
		}
		return os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// reaches says whether a new connection from the client to an address comes about.
func (w *wire) reaches(a netip.Addr) bool {
	err := w.segment.Station(w.machines + 1).Do(func() error {
		c, err := net.DialTimeout("tcp", netip.AddrPortFrom(a, caller.Port).String(), 300*time.Millisecond)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	return err == nil
}

// A virtual router that does not accept what is sent to its addresses is found
// and forwards, with either hardware address.
func TestVIPAcceptsNothing(t *testing.T) {
	nightly(t)
	for _, mac := range []string{"false", "true"} {
		t.Run("virtualMAC "+mac, func(t *testing.T) {
			w := newWire(t, 2)
			w.virtual = mac == "true"
			six := netip.MustParseAddr("2001:db8::100")
			w.addresses = append(w.addresses, six)
			w.call(six)
			w.behind(1, 2)
			w.start(1, router(1)+", accept: false, virtualMAC: "+mac, "")
			for i, a := range w.addresses {
				w.await("the client knows "+a.String(), 10*time.Second, func() bool {
					return w.client.Neighbor(a) == w.mac(1, a)
				})
				w.await("the router passes on to "+far[i].String(), 5*time.Second, func() bool { return w.reaches(far[i]) })
				if w.reaches(a) {
					t.Errorf("%s accepts a connection", a)
				}
			}
			if seen := w.client.Since(time.Now().Add(-time.Second)); len(seen.By) > 0 {
				t.Errorf("machines %v answered questions to %s", seen.By, held)
			}
			// It is found by those who have forgotten it, too.
			for _, a := range w.addresses {
				w.forget(a)
				w.await("the client finds "+a.String(), 5*time.Second, func() bool { return w.client.Neighbor(a) == w.mac(1, a) })
			}
			if s, err := w.status(1); err != nil || s.State != "active" {
				t.Errorf("status %+v, %v", s, err)
			}
		})
	}
}

// forget has the client look for an address anew.
func (w *wire) forget(a netip.Addr) {
	w.t.Helper()
	s := w.segment.Station(w.machines + 1)
	eth, err := s.Netlink.LinkByName(segment.Interface)
	if err == nil {
		err = s.Netlink.NeighDel(&netlink.Neigh{LinkIndex: eth.Attrs().Index, IP: a.AsSlice()})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

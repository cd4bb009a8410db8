package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

const (
	virtual4 = "00:00:5e:00:01:33" // of VRID 51
	virtual6 = "00:00:5e:00:02:33"
)

// beliefs are the hardware addresses that a station's kernel has had for others.
type beliefs struct {
	mu  sync.Mutex
	all map[string][]string // by IP address, each once, oldest first
}

// believe follows the neighbour table of a station.
func believe(t *testing.T, s *segment.Station) *beliefs {
	t.Helper()
	b := &beliefs{all: map[string][]string{}}
	updates, done := make(chan netlink.NeighUpdate, 1000), make(chan struct{})
	ns := netns.NsHandle(s.Fd())
	if err := netlink.NeighSubscribeWithOptions(updates, done, netlink.NeighSubscribeOptions{Namespace: &ns, ListExisting: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(done) })
	go func() {
		for u := range updates {
			mac, ip := u.HardwareAddr.String(), u.IP.String()
			if u.Type != unix.RTM_NEWNEIGH || mac == "" {
				continue
			}
			b.mu.Lock()
			if !slices.Contains(b.all[ip], mac) {
				b.all[ip] = append(b.all[ip], mac)
			}
			b.mu.Unlock()
		}
	}()
	return b
}

func (b *beliefs) of(a netip.Addr) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.all[a.String()])
}

// calls asks an address again and again from a station, and says whether
// anything has answered of late.
type calls struct {
	mu   sync.Mutex
	last time.Time
	gap  time.Duration // the longest between two
}

// longest is for how long no connection came about, after the first did.
func (c *calls) longest() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gap
}

func (c *calls) since(t time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.After(t)
}

// call has machines answer TCP, and an IPv6 address be asked by new connections from the
// client all the time.
func (w *wire) call(six netip.Addr) *calls {
	w.t.Helper()
	for i := 1; i <= w.machines; i++ {
		var l net.Listener
		err := w.segment.Station(i).Do(func() (err error) {
			l, err = net.Listen("tcp", ":7")
			return err
		})
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_ = c.Close()
			}
		}()
	}
	c, client := &calls{}, w.segment.Station(w.machines+1)
	to, done := netip.AddrPortFrom(six, 7).String(), make(chan struct{})
	w.t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		for w.t.Context().Err() == nil {
			begun := time.Now()
			err := client.Do(func() error {
				conn, err := net.DialTimeout("tcp6", to, 100*time.Millisecond)
				if err == nil {
					_ = conn.Close()
				}
				return err
			})
			if err == nil {
				c.mu.Lock()
				if !c.last.IsZero() {
					c.gap = max(c.gap, begun.Sub(c.last))
				}
				c.last = begun
				c.mu.Unlock()
			}
			<-time.After(2 * time.Millisecond)
		}
	}()
	return c
}

// link is the virtual interface of a station with a hardware address.
func (w *wire) link(i int, mac string) netlink.Link {
	w.t.Helper()
	all, err := w.segment.Station(i).Netlink.LinkList()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range all {
		if l.Attrs().HardwareAddr.String() == mac {
			return l
		}
	}
	return nil
}

// Whoever holds the addresses, the clients know one hardware address.
func TestVIPVirtualMAC(t *testing.T) {
	nightly(t)
	w := newWire(t, 2)
	w.virtual = true
	six := netip.MustParseAddr("2001:db8::100")
	w.addresses = append(w.addresses, six)
	if err := w.client.Trace(w.segment.Station(1), w.segment.Station(2)); err != nil {
		t.Fatal(err)
	}
	seen, calls := believe(t, w.segment.Station(3)), w.call(six)
	start := func(i int) { w.start(i, router(i)+", virtualMAC: true", "") }
	start(1)
	w.awaitHolder(1)
	start(2)
	w.awaitBackup(2, w.segment.Station(1).Four)
	holder := 1
	for _, c := range []struct {
		how       string
		gap, both time.Duration
		do        func(i int)
	}{
		{"release", 5*time.Millisecond + slack/4, oneAdvert, func(i int) {
			if err := w.release(i); err != nil {
				t.Fatal(err)
			}
		}},
		{"SIGTERM", 5*time.Millisecond + slack/4, oneAdvert, w.stop},
		{"SIGKILL", 330*time.Millisecond + slack, oneAdvert, func(i int) { w.kill(i, syscall.SIGKILL) }},
		{"SIGSTOP", 330*time.Millisecond + slack, oneAdvert, func(i int) { w.kill(i, syscall.SIGSTOP) }},
	} {
		begun := time.Now()
		c.do(holder)
		other := 3 - holder
		w.await("the other answers", 5*time.Second, func() bool { return w.client.Last() == other })
		w.await("the address is gone from where it was", 2500*time.Millisecond+slack, func() bool { return !w.on(holder) })
		w.awaitHolder(other)
		w.await("the IPv6 address answers", 5*time.Second, func() bool { return calls.since(time.Now().Add(-50 * time.Millisecond)) })
		w.expect(c.how, w.client.Since(begun), c.gap, c.both)
		switch c.how {
		case "SIGTERM":
			if l := w.link(holder, virtual4); l != nil {
				t.Errorf("%s is left behind", l.Attrs().Name)
			}
			start(holder)
		case "SIGKILL":
			start(holder)
		case "SIGSTOP":
			w.kill(holder, syscall.SIGCONT)
		}
		w.awaitBackup(holder, w.segment.Station(other).Four)
		if l := w.link(holder, virtual4); l == nil || l.Attrs().Flags&net.FlagUp != 0 {
			t.Errorf("after %s the backup takes what is sent to the virtual hardware address: %+v", c.how, l)
		}
		holder = other
	}
	for addr, want := range map[netip.Addr]string{held: virtual4, six: virtual6} {
		if got := seen.of(addr); !slices.Equal(got, []string{want}) {
			t.Errorf("the client has believed of %s: %v, want only %s", addr, got, want)
		}
	}
	for i := 1; i <= 2; i++ {
		s := w.segment.Station(i)
		if got := seen.of(s.Four); len(got) > 0 && !slices.Equal(got, []string{s.MAC.String()}) {
			t.Errorf("the client has believed of machine %d itself: %v, want only %s", i, got, s.MAC)
		}
	}
}

// awaitBackup waits until an agent is the backup of a holder.
func (w *wire) awaitBackup(i int, holder netip.Addr) {
	w.t.Helper()
	w.await(fmt.Sprintf("machine %d is the backup of %s", i, holder), 10*time.Second, func() bool {
		s, err := w.status(i)
		return err == nil && s.State == "backup" && s.Holder == holder.String()
	})
}

// What others do to the virtual interface and its parent is mended.
func TestVIPVirtualMACMended(t *testing.T) {
	nightly(t)
	w := newWire(t, 1)
	w.virtual = true
	s := w.segment.Station(1)
	w.start(1, router(1)+", virtualMAC: true", "")
	w.awaitHolder(1)
	seen := believe(t, w.segment.Station(2))
	for _, c := range []struct {
		what string
		gap  time.Duration
		do   func() error
	}{
		{"address removed", 20 * time.Millisecond, func() error {
			return s.Netlink.AddrDel(w.link(1, virtual4), &netlink.Addr{IPNet: &net.IPNet{IP: held.AsSlice(), Mask: net.CIDRMask(32, 32)}})
		}},
		{"virtual interface removed", 20 * time.Millisecond, func() error { return s.Netlink.LinkDel(w.link(1, virtual4)) }},
		// Nothing tells of it: the next refresh finds it.
		{"virtual interface set down", 550 * time.Millisecond, func() error { return s.Netlink.LinkSetDown(w.link(1, virtual4)) }},
	} {
		begun := time.Now()
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		w.await("it answers again after: "+c.what, 3*time.Second, func() bool {
			l := w.link(1, virtual4)
			return l != nil && l.Attrs().Flags&net.FlagUp != 0 && w.on(1)
		})
		w.awaitHolder(1)
		w.expect(c.what, w.client.Since(begun), c.gap+slack/4, 0)
	}
	eth, err := s.Netlink.LinkByName(segment.Interface)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Netlink.LinkSetName(eth, "other0"); err != nil {
		t.Fatal(err)
	}
	w.await("an interface that is renamed is no longer used", 3*time.Second, func() bool { return !w.on(1) })
	if err := s.Netlink.LinkSetName(eth, segment.Interface); err != nil {
		t.Fatal(err)
	}
	w.awaitHolder(1)
	if got := seen.of(held); !slices.Equal(got, []string{virtual4}) {
		t.Errorf("the client has believed %v", got)
	}
	if strings.Contains(w.running[1].log.String(), "level=ERROR") {
		w.logs()
		t.Error("errors were logged")
	}
}

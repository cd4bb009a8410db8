package link

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

func newSegment(t *testing.T, n int) *segment.Segment {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test must not be skipped in CI: run it as root")
		}
		t.Skip("namespaces need root")
	}
	g, err := segment.New(n)
	must(t, err)
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, s *segment.Station) *Handle {
	t.Helper()
	var h *Handle
	must(t, s.Do(func() (err error) {
		h, err = Open()
		return err
	}))
	t.Cleanup(h.Close)
	return h
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !f(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 5 s: %s", what)
		}
	}
}

func ours() []Address {
	return []Address{
		{Prefix: netip.PrefixFrom(four, 32), Interface: segment.Interface},
		{Prefix: netip.PrefixFrom(six, 128), Interface: segment.Interface},
	}
}

// there returns the entries of an address.
func there(t *testing.T, h *Handle, addr netip.Addr) []Entry {
	t.Helper()
	all, err := h.List()
	must(t, err)
	return slices.DeleteFunc(all, func(e Entry) bool { return e.Prefix.Addr() != addr })
}

func network(a netip.Addr, bits int) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, a.BitLen())}
}

func eth(t *testing.T, s *segment.Station) netlink.Link {
	t.Helper()
	l, err := s.Netlink.LinkByName(segment.Interface)
	must(t, err)
	return l
}

func TestAddressComesAndGoes(t *testing.T) {
	s := newSegment(t, 1).Station(1)
	h := open(t, s)
	for _, a := range ours() {
		addr := a.Prefix.Addr()
		must(t, h.Add(a))
		must(t, h.Add(a))
		got := there(t, h, addr)
		if len(got) != 1 || got[0].Prefix != a.Prefix || !got[0].Ours() || got[0].Preferred != 0 || got[0].Valid > 2 {
			t.Fatalf("%s: %+v", addr, got)
		}
		if got[0].Flags&unix.IFA_F_DEPRECATED == 0 || got[0].Flags&unix.IFA_F_TENTATIVE != 0 {
			t.Errorf("%s: flags %#x, want deprecated and not tentative", addr, got[0].Flags)
		}
		must(t, h.Remove(a))
		must(t, h.Remove(a))
		if got := there(t, h, addr); len(got) != 0 {
			t.Errorf("%s after Remove: %+v", addr, got)
		}
		a.Interface = "eth7"
		must(t, h.Remove(a))
		if err := h.Add(a); !errors.Is(err, ErrNoInterface) {
			t.Errorf("added to no interface: %v", err)
		}
	}
}

// The agent is killed: nobody refreshes any more.
func TestAddressGoesByItself(t *testing.T) {
	s := newSegment(t, 1).Station(1)
	h := open(t, s)
	var last time.Time
	for range 6 {
		for _, a := range ours() {
			must(t, h.Refresh(a))
		}
		last = time.Now()
		<-time.After(500 * time.Millisecond)
	}
	for _, a := range ours() {
		if len(there(t, h, a.Prefix.Addr())) != 1 {
			t.Errorf("%s: gone while it was refreshed", a.Prefix)
		}
	}
	gone := map[netip.Addr]time.Duration{}
	eventually(t, "both are gone", func() bool {
		for _, a := range ours() {
			addr := a.Prefix.Addr()
			if _, seen := gone[addr]; !seen && len(there(t, h, addr)) == 0 {
				gone[addr] = time.Since(last)
			}
		}
		return len(gone) == 2
	})
	for addr, d := range gone {
		t.Logf("%s: gone %v after the last refresh", addr, d.Round(time.Millisecond))
		// Two seconds, a quarter of one by which the kernel bundles its timers,
		// and as much for a busy machine.
		if d < 1500*time.Millisecond || d > 2750*time.Millisecond {
			t.Errorf("%s: gone %v after the last refresh", addr, d)
		}
	}
}

// source is the address that the kernel chooses to speak from.
func source(t *testing.T, s *segment.Station, to string) netip.Addr {
	t.Helper()
	var from netip.Addr
	must(t, s.Do(func() error {
		c, err := net.Dial("udp", net.JoinHostPort(to, "9"))
		if err != nil {
			return err
		}
		from = c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
		return c.Close()
	}))
	return from
}

func TestAddressIsNotChosenAsSource(t *testing.T) {
	s := newSegment(t, 1).Station(1)
	h := open(t, s)
	for _, a := range ours() {
		a.Lifetime = time.Hour
		must(t, h.Add(a))
	}
	// The neighbour whose number matches longest.
	if got := source(t, s, "192.0.2.101"); got != s.Four {
		t.Errorf("speaks from %s", got)
	}
	if got := source(t, s, "2001:db8::101"); got != s.Six {
		t.Errorf("speaks from %s", got)
	}
	// The machine loses its own address, as by an update of its DHCP client.
	must(t, s.Netlink.AddrDel(eth(t, s), &netlink.Addr{IPNet: network(s.Four, 24)}))
	must(t, s.Netlink.RouteAdd(&netlink.Route{LinkIndex: eth(t, s).Attrs().Index, Dst: network(netip.MustParseAddr("192.0.2.0"), 24), Scope: netlink.SCOPE_LINK}))
	if got := source(t, s, "192.0.2.101"); got == four {
		t.Errorf("speaks from %s, the only one left", got)
	}
}

func TestStrangersAddressIsNotTouched(t *testing.T) {
	s := newSegment(t, 1).Station(1)
	h := open(t, s)
	for _, a := range ours() {
		addr := a.Prefix.Addr()
		must(t, s.Netlink.AddrAdd(eth(t, s), &netlink.Addr{IPNet: network(addr, addr.BitLen()), Flags: unix.IFA_F_NODAD}))
		before := there(t, h, addr)
		var foreign *Foreign
		if err := h.Add(a); !errors.As(err, &foreign) || foreign.Prefix.Addr() != addr || foreign.Interface != segment.Interface {
			t.Errorf("added what a stranger has: %v", err)
		}
		if gone, err := h.Clean(addr); len(gone) != 0 || !errors.As(err, &foreign) {
			t.Errorf("cleaned %v of a stranger: %v", gone, err)
		}
		if after := there(t, h, addr); !slices.Equal(before, after) {
			t.Errorf("touched a stranger's address: %+v, was %+v", after, before)
		}
	}
	want := "address 192.0.2.100 is on eth0 already, put there by somebody else; remove it (ip address delete 192.0.2.100/32 dev eth0) or take it out of the settings"
	if err := h.Add(ours()[0]); err == nil || err.Error() != want {
		t.Errorf("said %v", err)
	}
}

func TestCleanTakesOffWhatWasLeft(t *testing.T) {
	s := newSegment(t, 1).Station(1)
	earlier, h := open(t, s), open(t, s)
	for _, a := range ours() {
		a.Lifetime = time.Hour
		must(t, earlier.Add(a))
	}
	gone, err := h.Clean(four, six, s.Four.Next())
	if err != nil || len(gone) != 2 {
		t.Errorf("took off %+v, %v", gone, err)
	}
	if len(there(t, h, four))+len(there(t, h, six)) != 0 || len(there(t, h, s.Four)) != 1 {
		t.Error("took off too much or too little")
	}
}

// diary collects what a Watcher reports.
type diary struct {
	mu   sync.Mutex
	text []string
}

func (d *diary) add(e Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.text = append(d.text, e.String())
}

// next waits until these were reported, in this order, whatever else was.
func (d *diary) next(t *testing.T, want ...string) {
	t.Helper()
	eventually(t, strings.Join(want, "; "), func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		rest := d.text
		for _, w := range want {
			i := slices.Index(rest, w)
			if i < 0 {
				return false
			}
			rest = rest[i+1:]
		}
		d.text = rest
		return true
	})
}

func TestWatcherReportsWhatHappens(t *testing.T) {
	s := newSegment(t, 1).Station(1)
	h := open(t, s)
	must(t, h.Add(ours()[0]))
	var w *Watcher
	must(t, s.Do(func() (err error) {
		w, err = NewWatcher(h, []string{segment.Interface, "later"}, []netip.Addr{four, six})
		return err
	}))
	var d diary
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, d.add) }()
	d.next(t, "interface eth0 appeared", "address there 192.0.2.100 on eth0")
	must(t, h.Refresh(ours()[1]))
	d.next(t, "address there 2001:db8::100 on eth0")
	must(t, s.Netlink.AddrDel(eth(t, s), &netlink.Addr{IPNet: network(four, 32)}))
	d.next(t, "address gone 192.0.2.100 on eth0")
	must(t, h.Refresh(ours()[0]))
	d.next(t, "address there 192.0.2.100 on eth0")
	must(t, s.Unplug())
	d.next(t, "interface eth0 carrier down")
	must(t, s.Plug())
	d.next(t, "interface eth0 carrier up")
	must(t, h.Refresh(ours()[1]))
	must(t, s.Netlink.LinkSetDown(eth(t, s)))
	d.next(t, "interface eth0 went down")
	must(t, s.Netlink.LinkSetName(eth(t, s), "lan"))
	d.next(t, "interface eth0 renamed to lan")
	lan, err := s.Netlink.LinkByName("lan")
	must(t, err)
	must(t, s.Netlink.LinkSetUp(lan))
	d.next(t, "interface lan went up", "interface lan carrier up")
	must(t, s.Netlink.LinkDel(lan))
	d.next(t, "interface lan gone")
	must(t, s.Netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "other"}, PeerName: "later"}))
	d.next(t, "interface later appeared")
	cancel()
	must(t, <-done)
	if slices.Contains(d.text, "interface other appeared") {
		t.Error("reports what nobody asked for")
	}
}

// Messages are lost when more come than fit; the watcher then compares.
func TestWatcherRecoversFromLostMessages(t *testing.T) {
	s := newSegment(t, 1).Station(1)
	h := open(t, s)
	ready, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var d diary
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		done <- s.Do(func() error {
			w, err := NewWatcher(h, []string{segment.Interface}, []netip.Addr{four})
			if err != nil {
				return err
			}
			if err := w.socket.SetReceiveBufferSize(4096, false); err != nil {
				return err
			}
			return w.Run(ctx, func(e Event) {
				once.Do(func() { close(ready); <-goOn })
				d.add(e)
			})
		})
	}()
	<-ready
	for range 200 {
		must(t, h.Refresh(ours()[0]))
		must(t, h.Remove(ours()[0]))
	}
	must(t, h.Refresh(ours()[0]))
	close(goOn)
	d.next(t, "address there 192.0.2.100 on eth0")
	cancel()
	must(t, <-done)
}

func TestVirtualMAC(t *testing.T) {
	g := newSegment(t, 2)
	s, client := g.Station(1), g.Station(2)
	h := open(t, s)
	mac := net.HardwareAddr{0, 0, 0x5e, 0, 1, 7}
	v := Virtual{Name: VirtualName(4, 255, segment.Interface), Parent: segment.Interface, MAC: mac, Owner: "test"}
	must(t, h.AddVirtual(v))
	must(t, h.AddVirtual(v))
	must(t, h.Raise(v))
	must(t, h.Raise(v))
	must(t, s.Do(func() error {
		for name, want := range map[string]int{"arp_announce": 2, "arp_ignore": 1, "rp_filter": 2} {
			if got, err := read("/proc/sys/net/ipv4/conf/" + v.Name + "/" + name); err != nil || got != want {
				t.Errorf("%s is %d, %v; want %d", name, got, err, want)
			}
		}
		return write("/proc/sys/net/ipv4/conf/eth0/arp_ignore", 1) // what package gate does without
	}))
	a := ours()[0]
	a.Interface, a.Lifetime = v.Name, time.Hour
	must(t, h.Add(a))
	var c *net.UDPConn
	must(t, s.Do(func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(four, 7)))
		return err
	}))
	defer func() { _ = c.Close() }()
	must(t, client.Do(func() error {
		q, err := net.Dial("udp", "192.0.2.100:7")
		if err != nil {
			return err
		}
		_, err = q.Write([]byte("?"))
		return errors.Join(err, q.Close())
	}))
	must(t, c.SetReadDeadline(time.Now().Add(5*time.Second)))
	if _, _, err := c.ReadFrom(make([]byte, 10)); err != nil {
		t.Fatalf("nothing arrives by the virtual hardware address: %v", err)
	}
	neighbours, err := client.Netlink.NeighList(eth(t, client).Attrs().Index, unix.AF_INET)
	must(t, err)
	if i := slices.IndexFunc(neighbours, func(n netlink.Neigh) bool { return n.IP.Equal(four.AsSlice()) }); i < 0 || neighbours[i].HardwareAddr.String() != mac.String() {
		t.Errorf("the client has %v", neighbours)
	}
	must(t, h.Lower(v))
	must(t, h.Lower(v))
	other := v
	other.Owner = "other"
	if err := h.AddVirtual(other); err == nil || !strings.Contains(err.Error(), "is not ours") {
		t.Errorf("replaced another agent's interface: %v", err)
	}
	must(t, h.RemoveVirtual(v))
	must(t, h.RemoveVirtual(v))
	must(t, h.Lower(v))
	if err := h.Raise(v); !errors.Is(err, ErrNoInterface) {
		t.Errorf("raised what is not there: %v", err)
	}
	v.Parent = "eth7"
	if err := h.AddVirtual(v); !errors.Is(err, ErrNoInterface) {
		t.Errorf("added to no interface: %v", err)
	}
}

func TestCleanVirtualLeavesOthers(t *testing.T) {
	s := newSegment(t, 1).Station(1)
	h := open(t, s)
	for i, owner := range []string{"a", "a", "b"} {
		v := Virtual{Name: VirtualName(4, i+1, segment.Interface), Parent: segment.Interface, MAC: net.HardwareAddr{0, 0, 0x5e, 0, 1, byte(i + 1)}, Owner: owner}
		must(t, h.AddVirtual(v))
	}
	for _, want := range [][]string{{VirtualName(4, 1, segment.Interface), VirtualName(4, 2, segment.Interface)}, nil} {
		gone, err := h.CleanVirtual("a")
		must(t, err)
		if !slices.Equal(gone, want) {
			t.Errorf("cleaned %q, want %q", gone, want)
		}
	}
	if _, err := s.Netlink.LinkByName(VirtualName(4, 3, segment.Interface)); err != nil {
		t.Errorf("that of another owner: %v", err)
	}
}

func TestSettingsAreRestored(t *testing.T) {
	s := newSegment(t, 1).Station(1)
	path := "/proc/sys/net/ipv4/conf/eth0/arp_announce"
	value := func() int {
		v, err := read(path)
		must(t, err)
		return v
	}
	must(t, s.Do(func() error {
		restore, err := SetARP(segment.Interface)
		must(t, err)
		if value() != 2 {
			t.Errorf("arp_announce is %d", value())
		}
		must(t, restore())
		if value() != 0 {
			t.Errorf("arp_announce is %d after all", value())
		}
		must(t, write(path, 2))
		restore, err = SetARP(segment.Interface)
		must(t, err)
		must(t, restore())
		if value() != 2 {
			t.Errorf("arp_announce is %d; it was 2 before", value())
		}
		return nil
	}))
}

// BenchmarkAddress times what is between winning an election and announcing.
func BenchmarkAddress(b *testing.B) {
	g, err := segment.New(1)
	if err != nil {
		b.Skip(err)
	}
	defer func() { _ = g.Close() }()
	var h *Handle
	if err := g.Station(1).Do(func() (err error) {
		h, err = Open()
		return err
	}); err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	for _, a := range ours() {
		b.Run("AddRemove"+a.Prefix.Addr().String(), func(b *testing.B) {
			for b.Loop() {
				if err := errors.Join(h.Add(a), h.Remove(a)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("Refresh"+a.Prefix.Addr().String(), func(b *testing.B) {
			for b.Loop() {
				if err := h.Refresh(a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

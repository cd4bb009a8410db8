package gate

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/address/announce"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

const (
	beHolder = "HOLDFAST_TEST_GATE_HOLDER"
	interval = 100 * ms // of the holder's renewals
	timeout  = 300 * ms
	// slack is for a busy machine of two cores; the timeout itself is the kernel's.
	slack = 200 * ms
)

// TestMain lets the test binary be the holder that is killed or stopped.
func TestMain(m *testing.M) {
	if os.Getenv(beHolder) == "" {
		os.Exit(m.Run())
	}
	if err := holder(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func holder() error {
	g, err := New(Config{})
	if err != nil {
		return err
	}
	for _, vip := range vips {
		if err := g.Open(vip, segment.Interface, timeout); err != nil {
			return err
		}
	}
	fmt.Println("open")
	for range time.Tick(interval) {
		err := g.Renew(timeout, vips...)
		if errors.Is(err, ErrShut) {
			fmt.Println("shut")
			select {}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func start(t *testing.T, s *segment.Station) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	spawner, err := space.NewSpawner(s.Space)
	must(t, err)
	t.Cleanup(spawner.Close)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), beHolder+"=yes")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, spawner.Start(cmd))
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	lines := bufio.NewScanner(out)
	expect(t, lines, "open")
	return cmd, lines
}

func expect(t *testing.T, lines *bufio.Scanner, want string) {
	t.Helper()
	if !lines.Scan() || lines.Text() != want {
		t.Fatalf("the holder said %q, want %q", lines.Text(), want)
	}
}

// serve gives a station the addresses for good and an echo on each: the kernel
// and the service live on when the holder dies.
func serve(t *testing.T, s *segment.Station) {
	t.Helper()
	eth, err := s.Netlink.LinkByName(segment.Interface)
	must(t, err)
	for _, vip := range vips {
		bits := vip.BitLen()
		must(t, s.Netlink.AddrAdd(eth, &netlink.Addr{IPNet: &net.IPNet{IP: vip.AsSlice(), Mask: net.CIDRMask(bits, bits)}, Flags: unix.IFA_F_NODAD}))
		c := listen(t, s, netip.AddrPortFrom(vip, 7))
		go func() {
			b := make([]byte, 100)
			for {
				n, from, err := c.ReadFromUDPAddrPort(b)
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err == nil {
					_, _ = c.WriteToUDPAddrPort(b[:n], from) // the gate refuses while shut
				}
			}
		}()
	}
}

func listen(t *testing.T, s *segment.Station, at netip.AddrPort) *net.UDPConn {
	t.Helper()
	var c *net.UDPConn
	must(t, s.Do(func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	}))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// watch is when a client last got an answer from each address, and when it last
// heard a frame that claims one.
type watch struct {
	mu            sync.Mutex
	answer, claim map[netip.Addr]time.Time
}

func (w *watch) last(m map[netip.Addr]time.Time, a netip.Addr) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return m[a]
}

func (w *watch) note(m map[netip.Addr]time.Time, a netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m[a] = time.Now()
}

// client asks every 2 ms and listens to the wire.
func client(t *testing.T, s *segment.Station) *watch {
	t.Helper()
	w := &watch{answer: map[netip.Addr]time.Time{}, claim: map[netip.Addr]time.Time{}}
	sp := speaker(t, s, func(h announce.Heard) { w.note(w.claim, h.Address) })
	must(t, sp.Watch(vips))
	for i, vip := range vips {
		c := listen(t, s, netip.AddrPortFrom([]netip.Addr{s.Four, s.Six}[i], 0))
		go func() {
			b := make([]byte, 100)
			for {
				_, _, err := c.ReadFromUDPAddrPort(b)
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err == nil {
					w.note(w.answer, vip)
				}
			}
		}()
		go every(t, 2*ms, func() { _, _ = c.WriteToUDPAddrPort([]byte("?"), netip.AddrPortFrom(vip, 7)) })
	}
	return w
}

func every(t *testing.T, d time.Duration, f func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-t.Context().Done():
			return
		case <-tick.C:
			f()
		}
	}
}

func speaker(t *testing.T, s *segment.Station, heard func(announce.Heard)) *announce.Speaker {
	t.Helper()
	var sp *announce.Speaker
	must(t, s.Do(func() (err error) {
		sp, err = announce.Open(announce.Options{Interface: segment.Interface, Heard: heard})
		return err
	}))
	go func() { _ = sp.Run(t.Context()) }()
	return sp
}

// ask makes a station's kernel look for neighbours with the addresses as the
// sender: a service that answers clients from them does that all the time.
func ask(t *testing.T, s *segment.Station) {
	for i, vip := range vips {
		nobody := []netip.Addr{netip.MustParseAddr("192.0.2.200"), netip.MustParseAddr("2001:db8::200")}[i]
		c := listen(t, s, netip.AddrPortFrom(vip, 0))
		go every(t, 10*ms, func() {
			_, _ = c.WriteToUDPAddrPort([]byte("!"), netip.AddrPortFrom(nobody, 9))
			nobody = nobody.Next() // a known failure is not asked for again at once
			if strings.HasSuffix(nobody.String(), ".250") {
				nobody = netip.MustParseAddr("192.0.2.200")
			}
		})
	}
}

func TestDeadHolderFallsSilent(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal syscall.Signal
	}{{"killed", syscall.SIGKILL}, {"stopped", syscall.SIGSTOP}} {
		t.Run(c.name, func(t *testing.T) {
			g := newSegment(t, 2)
			s := g.Station(1)
			serve(t, s)
			cmd, lines := start(t, s)
			w := client(t, g.Station(2))
			ask(t, s)
			speaks := func(since time.Time) func() bool {
				return func() bool {
					for _, vip := range vips {
						if w.last(w.answer, vip).Before(since) || w.last(w.claim, vip).Before(since) {
							return false
						}
					}
					return true
				}
			}
			eventually(t, "both addresses answer and claim", speaks(time.Now()))
			<-time.After(2 * timeout) // outlive what was opened first
			eventually(t, "both are kept open", speaks(time.Now()))
			at := time.Now()
			must(t, cmd.Process.Signal(c.signal))
			silent(t, w, at)
			if c.signal == syscall.SIGKILL {
				return
			}
			must(t, cmd.Process.Signal(syscall.SIGCONT))
			expect(t, lines, "shut")
			silent(t, w, at)
		})
	}
}

// silent waits until long after the timeout, and looks when the last frame came.
func silent(t *testing.T, w *watch, since time.Time) {
	t.Helper()
	<-time.After(2*timeout + slack)
	for _, vip := range vips {
		for what, m := range map[string]map[netip.Addr]time.Time{"answered": w.answer, "claimed": w.claim} {
			d := w.last(m, vip).Sub(since)
			t.Logf("%s: %s last %v after the signal", vip, what, d.Round(ms))
			if d > timeout+slack {
				t.Errorf("%s: %s %v after its holder, open for %v", vip, what, d, timeout)
			}
			if d < timeout-interval-slack {
				t.Errorf("%s: %s last %v after the signal, as if the gate had not been open", vip, what, d)
			}
		}
	}
}

// A raw socket does not get around the gate.
func TestAnnouncementOfAFrozenProcessDoesNotLeave(t *testing.T) {
	g := newSegment(t, 2)
	gate := newGate(t, g.Station(1))
	if !gate.Egress() {
		t.Skip("this kernel has no egress hooks")
	}
	heard := make(chan announce.Heard, 100)
	must(t, speaker(t, g.Station(2), func(h announce.Heard) { heard <- h }).Watch(append(vips, g.Station(1).Four)))
	sp := speaker(t, g.Station(1), nil)
	for _, vip := range vips {
		must(t, gate.Guard(vip, segment.Interface))
		_ = sp.Announce(vip) // the kernel may say so
		must(t, sp.Announce(g.Station(1).Four))
		for range 2 {
			if h := <-heard; h.Address != g.Station(1).Four {
				t.Errorf("heard a claim of %s, which is shut", h.Address)
			}
		}
		must(t, gate.Open(vip, segment.Interface, time.Hour))
		must(t, sp.Announce(vip))
		if h := <-heard; h.Address != vip {
			t.Errorf("heard %s after opening %s", h.Address, vip)
		}
		if vip.Is4() {
			<-heard // the reply after the request
		}
	}
}

// A router that is guarded for an address, but does not have it, forwards.
func TestWhatPassesThroughIsNotTouched(t *testing.T) {
	g := newSegment(t, 3)
	router, far := g.Station(2), g.Station(3)
	gate := newGateOf(t, router, Config{Refused: vips})
	for _, vip := range vips {
		must(t, gate.Guard(vip, segment.Interface))
	}
	must(t, router.Do(func() error {
		return errors.Join(
			os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0),
			os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0),
		)
	}))
	serve(t, far)
	near := g.Station(1)
	for from, via := range map[*segment.Station]*segment.Station{near: router, router: far} {
		eth, err := from.Netlink.LinkByName(segment.Interface)
		must(t, err)
		for i, vip := range vips {
			hop, bits := []netip.Addr{via.Four, via.Six}[i], vip.BitLen()
			must(t, from.Netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: hop.AsSlice(), Dst: &net.IPNet{IP: vip.AsSlice(), Mask: net.CIDRMask(bits, bits)}}))
		}
	}
	w := client(t, near)
	for _, vip := range vips {
		eventually(t, vip.String()+" answers through the router", func() bool { return !w.last(w.answer, vip).IsZero() })
	}
}

// The first address of an IPv6 router in VRRP is link-local.
func TestLinkLocalAddressIsGated(t *testing.T) {
	g := newSegment(t, 2)
	s := g.Station(1)
	gate := newGate(t, s)
	vip := netip.MustParseAddr("fe80::100")
	eth, err := s.Netlink.LinkByName(segment.Interface)
	must(t, err)
	must(t, s.Netlink.AddrAdd(eth, &netlink.Addr{IPNet: &net.IPNet{IP: vip.AsSlice(), Mask: net.CIDRMask(128, 128)}, Flags: unix.IFA_F_NODAD}))
	at := netip.AddrPortFrom(vip.WithZone(segment.Interface), 7)
	server := listen(t, s, at)
	from := listen(t, g.Station(2), netip.AddrPortFrom(netip.MustParseAddr("fe80::2").WithZone(segment.Interface), 0))
	arrives := func(patience time.Duration) bool {
		_, err := from.WriteToUDPAddrPort([]byte("?"), at)
		must(t, err)
		must(t, server.SetReadDeadline(time.Now().Add(patience)))
		_, _, err = server.ReadFromUDPAddrPort(make([]byte, 10))
		return err == nil
	}
	must(t, gate.Open(vip, segment.Interface, time.Hour))
	if !arrives(5 * time.Second) {
		t.Error("open, and nothing arrives")
	}
	must(t, gate.Shut(vip)) // the neighbour knows the way by now
	if arrives(slack) {
		t.Error("shut, and something arrives")
	}
	must(t, gate.Open(vip, segment.Interface, time.Hour))
	if !arrives(5 * time.Second) {
		t.Error("open again, and nothing arrives")
	}
}

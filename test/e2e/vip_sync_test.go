package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// Who has the better priority takes over from a worse holder only if it is told
// to, and not before its delay.
func TestVIPPreempts(t *testing.T) {
	nightly(t)
	w := newWire(t, 2)
	w.start(2, router(2), "")
	w.awaitHolder(2)
	begun := time.Now()
	w.start(1, router(1), "")
	w.awaitBackup(1, w.segment.Station(2).Four)
	<-time.After(time.Second) // three times what a silence lasts
	w.awaitHolder(2)
	w.expect("no preemption", w.client.Since(begun), 5*time.Millisecond+slack/4, 0)
	w.stop(1)

	begun = time.Now()
	w.start(1, router(1)+", preempt: true, preemptDelay: 2s", "")
	w.await("it preempts", 10*time.Second, func() bool { return w.client.Last() == 1 })
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("preempted after %s; the delay is 2s", took)
	}
	w.awaitHolder(1)
	w.expect("preemption", w.client.Since(begun), 5*time.Millisecond+slack/4, oneAdvert)
	if s, err := w.status(1); err != nil || s.Cause != "preempt" {
		t.Errorf("status %+v, %v", s, err)
	}
}

// inside is the second interface of machines that route.
const inside = "eth1"

// cable gives machines 1 to n a second interface on a wire of its own, and
// returns what takes the carrier from one of them and gives it back.
func (w *wire) cable() (carrier func(i int, up bool)) {
	w.t.Helper()
	hub, err := space.New()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = hub.Close() })
	do := func(f func() error) {
		w.t.Helper()
		if err := hub.Do(f); err != nil {
			w.t.Fatal(err)
		}
	}
	port := func(i int) string { return fmt.Sprintf("port%d", i) }
	do(func() error {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br1"}}
		if err := netlink.LinkAdd(bridge); err != nil {
			return err
		}
		for i := 1; i <= w.machines; i++ {
			pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: port(i), MasterIndex: bridge.Attrs().Index}, PeerName: inside, PeerNamespace: netlink.NsFd(w.segment.Station(i).Fd())}
			if err := netlink.LinkAdd(pair); err != nil {
				return err
			}
			if err := netlink.LinkSetUp(pair); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(bridge)
	})
	for i := 1; i <= w.machines; i++ {
		s := w.segment.Station(i)
		l, err := s.Netlink.LinkByName(inside)
		if err == nil {
			err = s.Netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(198, 51, 100, byte(i)), Mask: net.CIDRMask(24, 32)}})
		}
		if err == nil {
			err = s.Netlink.LinkSetUp(l)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return func(i int, up bool) {
		w.t.Helper()
		do(func() error {
			l, err := netlink.LinkByName(port(i))
			if err != nil {
				return err
			}
			if up {
				return netlink.LinkSetUp(l)
			}
			return netlink.LinkSetDown(l)
		})
	}
}

// Inside and outside of a gateway move together: who has lost one side is no
// gateway.
func TestVIPSync(t *testing.T) {
	nightly(t)
	w := newWire(t, 2)
	carrier := w.cable()
	within := netip.MustParseAddr("198.51.100.100")
	for i := 1; i <= 2; i++ {
		w.start(i, router(i)+", sync: gateway", strings.ReplaceAll(fmt.Sprintf(`
  - name: inside
    addresses: [%s]
    interface: %s
    vrrp: {vrid: 52, %s, sync: gateway}
`, within, inside, router(i)), "\n\n", "\n"))
	}
	holder := w.awaitOne()
	other := 3 - holder
	both := func(i int) func() bool {
		return func() bool { return w.holds(i) && w.has(i, within) && !w.has(3-i, within) }
	}
	w.await("it holds both", 5*time.Second, both(holder))
	begun := time.Now()
	carrier(holder, false)
	w.await("the other holds both", 5*time.Second, both(other))
	w.expect("inside lost, outside", w.client.Since(begun), 50*time.Millisecond+slack, oneAdvert)
	s, err := w.statusOf(holder)
	if err != nil || len(s.Groups) != 2 || s.Groups[0].State != "initialize" || !strings.Contains(s.Groups[1].Fault, "has no carrier") {
		t.Errorf("status of the one that has lost a side: %+v, %v", s.Groups, err)
	}
	// It comes back, and takes nothing back.
	begun = time.Now()
	carrier(holder, true)
	w.await("it is the backup of both", 10*time.Second, func() bool {
		s, err := w.statusOf(holder)
		return err == nil && s.Groups[0].State == "backup" && s.Groups[1].State == "backup"
	})
	<-time.After(time.Second)
	w.await("the other holds both still", time.Second, both(other))
	w.expect("inside is back", w.client.Since(begun), 5*time.Millisecond+slack/4, 0)
	// And the other way: handing over one hands over both.
	if err := w.release(other); err != nil {
		t.Fatal(err)
	}
	w.await("both were handed over", 5*time.Second, both(holder))
}

// What happens to the machine's interface and addresses while the agent runs. It
// is not restarted.
func TestVIPInterfaceComesAndGoes(t *testing.T) {
	nightly(t)
	for _, mac := range []string{"false", "true"} {
		t.Run("virtualMAC "+mac, func(t *testing.T) { comesAndGoes(t, mac) })
	}
}

func comesAndGoes(t *testing.T, mac string) {
	w := newWire(t, 2)
	w.virtual = mac == "true"
	if err := w.client.Trace(w.segment.Station(1), w.segment.Station(2)); err != nil {
		t.Fatal(err)
	}
	s := w.segment.Station(1)
	eth, err := s.Netlink.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	rename := func(name string) {
		t.Helper()
		if err := s.Netlink.LinkSetName(eth, name); err != nil {
			t.Fatal(err)
		}
	}
	start := func(i int) { w.start(i, router(i)+", preempt: true, virtualMAC: "+mac, "") }
	// Missing at the start.
	rename("other0")
	start(1)
	agent := w.running[1]
	w.await("the missing interface is named", 10*time.Second, func() bool {
		return strings.Contains(agent.log.String(), "there is none of the name eth0; it is waited for")
	})
	rename("eth0")
	w.awaitHolder(1)
	start(2)
	w.awaitBackup(2, s.Four)
	// Each of these makes the other the holder, and it comes back by itself.
	own := &netlink.Addr{IPNet: &net.IPNet{IP: s.Four.AsSlice(), Mask: net.CIDRMask(24, 32)}}
	for _, c := range []struct {
		what     string
		gone     func() error
		back     func() error
		gap      time.Duration
		together time.Duration
	}{
		{"renamed", func() error { rename("other0"); return nil }, func() error { rename("eth0"); return nil }, 330 * time.Millisecond, 0},
		{"set down", func() error { return s.Netlink.LinkSetDown(eth) }, func() error { return s.Netlink.LinkSetUp(eth) }, 330 * time.Millisecond, 0},
		{"unplugged", s.Unplug, s.Plug, 330 * time.Millisecond, 0},
		// As a DHCP client does whose lease is over: nobody hears us any more.
		{"its own address removed", func() error { return s.Netlink.AddrDel(eth, own) }, func() error { return s.Netlink.AddrAdd(eth, own) }, 330 * time.Millisecond, oneAdvert},
	} {
		begun := time.Now()
		if err := c.gone(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		w.await("the other answers after: "+c.what, 5*time.Second, func() bool { return w.client.Last() == 2 })
		w.awaitHolder(2)
		w.expect(c.what, w.client.Since(begun), c.gap+slack, c.together)
		begun = time.Now()
		if err := c.back(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		w.awaitHolder(1)
		w.expect("back after: "+c.what, w.client.Since(begun), 50*time.Millisecond+slack/4, oneAdvert)
	}
	// A flapping one: whatever happens meanwhile, it ends well.
	for range 20 {
		if err := s.Netlink.LinkSetDown(eth); err != nil {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
		if err := s.Netlink.LinkSetUp(eth); err != nil {
			t.Fatal(err)
		}
		<-time.After(30 * time.Millisecond)
	}
	w.awaitHolder(1)
	w.awaitBackup(2, s.Four)
	if lines := strings.Count(agent.log.String(), "\n"); lines > 120 {
		t.Errorf("%d lines were logged:\n%s", lines, agent.log)
	}
	select {
	case <-agent.done:
		t.Error("the agent has ended")
	default:
	}
}

// Without a capability, one line says which.
func TestVIPMissingCapability(t *testing.T) {
	nightly(t)
	w := newWire(t, 1)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for drop, want := range map[string]string{"net_admin": "the agent needs CAP_NET_ADMIN", "net_raw": "the agent needs CAP_NET_RAW"} {
		w.launch(1, []string{asAgent + "=1"}, "setpriv", "--bounding-set", "-"+drop, "--inh-caps", "-"+drop,
			self, "vip", "run", "--config", w.settings(1, router(1), ""))
		m := w.running[1]
		w.await("the line about "+drop, 10*time.Second, func() bool { return strings.Contains(m.log.String(), want) })
		<-time.After(2500 * time.Millisecond) // it is tried again meanwhile
		if n := strings.Count(m.log.String(), want); n != 1 {
			t.Errorf("%d lines about %s:\n%s", n, drop, m.log)
		}
		if w.on(1) {
			t.Errorf("the address is held without %s", drop)
		}
		w.kill(1, unix.SIGKILL)
	}
}

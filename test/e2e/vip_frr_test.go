package e2e

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	frrouting "github.com/holdfast-ha/holdfast/internal/prove/lab/frr"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// frr runs vrrpd of FRR on a station: with the addresses on interfaces with the
// virtual hardware addresses, as it wants to find them.
func (w *wire) frr(i int, version int, interval time.Duration, priority int) {
	w.t.Helper()
	s := w.segment.Station(i)
	eth, err := s.Netlink.LinkByName(segment.Interface)
	if err != nil {
		w.t.Fatal(err)
	}
	settings := fmt.Sprintf("interface %s\n vrrp 51 version %d\n vrrp 51 priority %d\n vrrp 51 advertisement-interval %d\n", segment.Interface, version, priority, interval.Milliseconds())
	for _, a := range w.addresses {
		name, mac, bits, family := "vrrp4-51", virtual4, 24, "ip"
		if a.Is6() {
			name, mac, bits, family = "vrrp6-51", virtual6, 64, "ipv6"
		}
		settings += fmt.Sprintf(" vrrp 51 %s %s\n", family, a)
		if _, err := s.Netlink.LinkByName(name); err == nil {
			continue // from an earlier run
		}
		hardware, _ := net.ParseMAC(mac)
		l := &netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: name, ParentIndex: eth.Attrs().Index, HardwareAddr: hardware}, Mode: netlink.MACVLAN_MODE_BRIDGE}
		if err := s.Netlink.LinkAdd(l); err != nil {
			w.t.Fatal(err)
		}
		const random = 3 // addrgenmode: FRR sends from a link-local address of the interface
		if err := s.Netlink.LinkSetIP6AddrGenMode(l, random); err != nil {
			w.t.Fatal(err)
		}
		err := s.Do(func() error {
			return os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/accept_dad", []byte("0"), 0)
		})
		if err != nil {
			w.t.Fatal(err)
		}
		if err := s.Netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, a.BitLen())}}); err != nil {
			w.t.Fatal(err)
		}
		if err := s.Netlink.LinkSetUp(l); err != nil {
			w.t.Fatal(err)
		}
	}
	dir := filepath.Join(w.dir, fmt.Sprintf("frr-%d", i))
	if w.zebra[i] == nil {
		cmd, err := frrouting.Command(dir, "zebra", "")
		if err != nil {
			w.t.Fatal(err)
		}
		w.zebra[i] = w.begin(i, "zebra", cmd)
		ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
		defer cancel()
		if err := (frrouting.Console{Dir: dir}).Await(ctx, "zebra"); err != nil {
			w.t.Fatal(err)
		}
	}
	cmd, err := frrouting.Command(dir, "vrrpd", settings)
	if err != nil {
		w.t.Fatal(err)
	}
	w.running[i] = w.begin(i, "vrrpd", cmd)
}

// frrState is what FRR says of its virtual routers: "Master", "Backup" or
// "Initialize" of each, IPv4 first.
func (w *wire) frrState(i int) string {
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
	defer cancel()
	var all []struct {
		V4, V6 struct {
			Status string `json:"status"`
		}
	}
	if err := (frrouting.Console{Dir: filepath.Join(w.dir, fmt.Sprintf("frr-%d", i))}).JSON(ctx, "vrrpd", "show vrrp json", &all); err != nil || len(all) != 1 {
		return fmt.Sprint(err, len(all))
	}
	words := []string{all[0].V4.Status}
	if len(w.addresses) > 1 {
		words = append(words, all[0].V6.Status)
	}
	return strings.Join(words, " ")
}

// awaitFRR waits until FRR is in a state with all its virtual routers.
func (w *wire) awaitFRR(i int, state string) {
	w.t.Helper()
	want := state
	if len(w.addresses) > 1 {
		want += " " + state
	}
	got := ""
	w.await("FRR is "+want, 20*time.Second, func() bool {
		if got = w.frrState(i); got != want {
			<-time.After(50 * time.Millisecond)
		}
		return got == want
	})
}

// begin starts a program on a station.
func (w *wire) begin(i int, name string, cmd *exec.Cmd) *machine {
	w.t.Helper()
	m := &machine{name: fmt.Sprintf("%s on station %d", name, i), cmd: cmd, log: &buffer{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = m.log, m.log
	if err := w.spawners[i-1].Start(cmd); err != nil {
		w.t.Fatal(err)
	}
	go func() { _ = m.cmd.Wait(); close(m.done) }()
	w.ran = append(w.ran, m)
	return m
}

// Either takes over from FRR, and FRR from us: its clients and ours know one
// virtual router. Who answers ARP at once is not judged: FRR's kernel was seen to
// do so for up to 1.6 s while FRR was a backup, which sets its interface's
// protodown and no more. Ours is off the machine when its time is over.
func TestVIPBesideFRR(t *testing.T) {
	nightly(t)
	needFRR(t)
	for _, c := range []struct {
		name     string
		version  int
		interval time.Duration
		more     []netip.Addr
	}{
		{"version 3", 3, 100 * time.Millisecond, []netip.Addr{netip.MustParseAddr("2001:db8::100")}},
		{"version 2", 2, time.Second, nil},
	} {
		t.Run(c.name, func(t *testing.T) { besideFRR(t, c.version, c.interval, c.more) })
	}
}

func besideFRR(t *testing.T, version int, interval time.Duration, more []netip.Addr) {
	w := newWire(t, 2)
	w.virtual, w.addresses = true, append(w.addresses, more...)
	for _, a := range more {
		if err := w.client.Also(a); err != nil {
			t.Fatal(err)
		}
	}
	// What a silence lasts: three adverts and the skew, and a round trip.
	silence := 3*interval + 30*time.Millisecond
	if version == 2 {
		silence += 250 * time.Millisecond // of priority 200, by a second
	}
	ours := func(more string) string {
		return fmt.Sprintf("version: %d, priority: 210, interval: %s, virtualMAC: true%s", version, interval, more)
	}
	w.frr(2, version, interval, 200)
	w.await("FRR answers", 20*time.Second, func() bool { return w.client.Last() == 2 })
	w.awaitFRR(2, "Master")
	w.start(1, ours(""), "")
	w.awaitBackup(1, w.segment.Station(2).Four)

	// FRR's machine dies.
	begun := time.Now()
	if err := w.segment.Station(2).Silence(); err != nil {
		t.Fatal(err)
	}
	w.kill(2, syscall.SIGKILL)
	w.await("ours answers", 3*silence, func() bool { return w.client.Last() == 1 })
	w.expect("from dead FRR to ours", w.client.Since(begun), silence+slack, 0)

	// It is back as our backup.
	begun = time.Now()
	w.frr(2, version, interval, 200)
	if err := w.segment.Station(2).Rejoin(); err != nil {
		t.Fatal(err)
	}
	w.awaitFRR(2, "Backup")
	w.expect("FRR is back", w.client.Since(begun), 50*time.Millisecond+slack/4, 0)

	begun = time.Now()
	w.stop(1)
	w.await("FRR answers", 5*time.Second, func() bool { return w.client.Last() == 2 })
	w.awaitFRR(2, "Master")
	w.expect("SIGTERM, to FRR", w.client.Since(begun), 5*time.Millisecond+slack/4, 0)

	begun = time.Now()
	w.start(1, ours(", preempt: true"), "")
	w.await("ours preempts", 20*time.Second, func() bool { return w.client.Last() == 1 })
	w.awaitFRR(2, "Backup")
	w.expect("ours preempts FRR", w.client.Since(begun), 50*time.Millisecond+slack/4, 0)

	begun = time.Now()
	w.kill(1, syscall.SIGKILL)
	w.await("FRR answers", 3*silence, func() bool { return w.client.Last() == 2 })
	w.awaitFRR(2, "Master")
	w.await("the address is gone from ours", 2500*time.Millisecond+slack, func() bool { return !w.on(1) })
	w.expect("from ours, killed, to FRR", w.client.Since(begun), silence+slack, 0)
}

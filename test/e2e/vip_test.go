package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
	"github.com/holdfast-ha/holdfast/test/caller"
)

// slack is what a busy machine of two cores may add to a bar.
const slack = 400 * time.Millisecond

// three starts three of ours, of which the first is the best, and waits until one
// of them holds the address.
func three(t *testing.T) *wire {
	w := newWire(t, 3)
	for i := 1; i <= 3; i++ {
		w.start(i, router(i), "")
	}
	w.awaitOne()
	return w
}

func (w *wire) expect(what string, got caller.Seen, gap, both time.Duration) {
	w.t.Helper()
	before := w.t.Failed()
	w.t.Logf("%s: gap %s (%d lost), two at once %s, answered by %v", what, got.Gap.Round(100*time.Microsecond), got.Lost, got.Both.Round(100*time.Microsecond), got.By)
	if got.Gap > gap {
		w.t.Errorf("%s: no answer for %s, at most %s expected", what, got.Gap, gap)
	}
	if got.Both > both {
		w.t.Errorf("%s: two answered at once for %s, at most %s expected", what, got.Both, both)
	}
	w.believed(what)
	if !before && w.t.Failed() {
		w.logs()
	}
}

// believed checks what the client's kernel believes of the addresses, at once: a
// client that has to find out by itself has lost what it sent until then.
func (w *wire) believed(what string) {
	w.t.Helper()
	holder := w.client.Last()
	for _, a := range w.addresses {
		if got := w.client.Neighbor(a); got != w.mac(holder, a) {
			w.t.Errorf("%s: machine %d answers, and the client takes %q for the neighbor that has %s", what, holder, got, a)
		}
	}
}

// oneAdvert and a round trip, on a busy machine: how long two may answer at once.
const oneAdvert = 100*time.Millisecond + 20*time.Millisecond

func TestVIPHolderDies(t *testing.T) {
	w := three(t)
	holder := w.client.Last()
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		begun := time.Now()
		w.kill(holder, how)
		w.await("another answers", 5*time.Second, func() bool { return w.client.Last() != holder })
		next := w.awaitAnother(holder)
		w.await("the address is gone from the machine whose agent is dead", 2500*time.Millisecond+slack, func() bool { return !w.on(holder) })
		w.expect(fmt.Sprint(how), w.client.Since(begun), 330*time.Millisecond+slack, oneAdvert)
		// It comes back, or is continued, and takes nothing back.
		begun = time.Now()
		if how == syscall.SIGKILL {
			w.start(holder, router(holder), "")
		} else {
			w.kill(holder, syscall.SIGCONT)
		}
		w.await("it is back", 5*time.Second, func() bool {
			s, err := w.status(holder)
			return err == nil && s.State == "backup"
		})
		<-time.After(time.Second)
		w.awaitHolder(next)
		w.expect(fmt.Sprint("after ", how), w.client.Since(begun), 50*time.Millisecond+slack/4, 0)
		holder = next
	}
}

func TestVIPHandOver(t *testing.T) {
	w := three(t)
	for _, how := range []string{"release", "SIGTERM"} {
		holder := w.client.Last()
		begun := time.Now()
		if how == "release" {
			if err := w.release(holder); err != nil {
				t.Fatal(err)
			}
		} else {
			w.stop(holder)
		}
		w.await("another answers", 5*time.Second, func() bool { return w.client.Last() != holder })
		w.awaitOne()
		w.expect(how, w.client.Since(begun), 5*time.Millisecond+slack/4, oneAdvert)
		if how == "SIGTERM" {
			w.start(holder, router(holder), "")
		}
	}
}

// A holder that is cut off stays one on its side; once it is heard again there is
// one, and the client believes the right one.
func TestVIPHolderCutOff(t *testing.T) {
	w := three(t)
	holder := w.client.Last()
	<-time.After(rand.N(100 * time.Millisecond)) // at any time between two adverts
	begun := time.Now()
	if err := w.segment.Station(holder).Silence(); err != nil {
		t.Fatal(err)
	}
	w.await("another answers", 5*time.Second, func() bool { return w.client.Last() != holder })
	better := 1 // of the two that are left
	if holder == better {
		better = 2
	}
	next := w.awaitAnother(holder)
	got := w.client.Since(begun)
	// Backups whose priorities differ by 10 wait for 10/256 of an advert longer
	// than one another (RFC 9568, section 6.1: Skew_Time), here 3.9 ms. One that
	// comes to run later than that finds the other active, and they are one again
	// with the first advert that either hears. If it was both, the better stays.
	w.expect("silent", got, 330*time.Millisecond+slack, oneAdvert)
	if got.Both > 0 && next != better {
		t.Errorf("machine %d holds the address after both of those left took over, and %d is the better", next, better)
	}
	begun = time.Now()
	if err := w.segment.Station(holder).Rejoin(); err != nil {
		t.Fatal(err)
	}
	better = min(holder, next)
	w.awaitHolder(better)
	w.expect("heard again", w.client.Since(begun), 50*time.Millisecond, oneAdvert)
	for i := 1; i <= 3; i++ {
		w.await("the agents know one holder", 5*time.Second, func() bool {
			s, err := w.status(i)
			return err == nil && s.Holder == w.segment.Station(better).Four.String()
		})
	}
}

// Either takes over from keepalived, and keepalived from us, by the same timers.
func TestVIPBesideKeepalived(t *testing.T) {
	needKeepalived(t)
	w := newWire(t, 2)
	w.keepalived(2, 200, "")
	w.await("keepalived answers", 10*time.Second, func() bool { return w.client.Last() == 2 })
	w.start(1, "priority: 210, interval: 100ms", "")
	w.await("ours is its backup", 5*time.Second, func() bool {
		s, err := w.status(1)
		return err == nil && s.State == "backup" && s.Holder == w.segment.Station(2).Four.String()
	})
	// From keepalived that is silent, and back from us.
	begun := time.Now()
	if err := w.segment.Station(2).Silence(); err != nil {
		t.Fatal(err)
	}
	w.await("ours answers", 5*time.Second, func() bool { return w.client.Last() == 1 })
	w.expect("from silent keepalived to ours", w.client.Since(begun), 330*time.Millisecond+slack, 0)
	begun = time.Now()
	if err := w.segment.Station(2).Rejoin(); err != nil {
		t.Fatal(err)
	}
	w.awaitHolder(1)
	w.expect("keepalived is heard again", w.client.Since(begun), 50*time.Millisecond, oneAdvert)
	begun = time.Now()
	w.kill(1, syscall.SIGKILL)
	w.await("keepalived answers", 5*time.Second, func() bool { return w.client.Last() == 2 })
	w.expect("from ours, killed, to keepalived", w.client.Since(begun), 330*time.Millisecond+slack, oneAdvert)
	// Hand-over in both directions.
	w.start(1, "priority: 210, interval: 100ms, preempt: true", "")
	begun = time.Now()
	w.await("ours preempts", 10*time.Second, func() bool { return w.client.Last() == 1 })
	w.awaitHolder(1)
	w.expect("ours preempts keepalived", w.client.Since(begun), 50*time.Millisecond, oneAdvert)
	begun = time.Now()
	w.stop(1)
	w.awaitHolder(2)
	w.expect("SIGTERM, to keepalived", w.client.Since(begun), 5*time.Millisecond+slack/4, oneAdvert)
}

// A check that fails gives the address up, or takes a weight off.
func TestVIPHealthGate(t *testing.T) {
	w := newWire(t, 2)
	good := w.dir + "/good"
	touch := func() {
		if err := os.WriteFile(good, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	touch()
	check := "    health: [{name: file, kind: file, path: " + good + ", period: 50ms}]"
	w.start(1, router(1), check)
	w.await("the first holds it", 10*time.Second, func() bool { return w.client.Last() == 1 })
	w.start(2, router(2), "")
	w.await("the second is its backup", 5*time.Second, func() bool {
		s, err := w.status(2)
		return err == nil && s.State == "backup" && s.Holder == w.segment.Station(1).Four.String()
	})
	begun := time.Now()
	if err := os.Remove(good); err != nil {
		t.Fatal(err)
	}
	w.awaitHolder(2)
	w.expect("unhealthy", w.client.Since(begun), 100*time.Millisecond+slack, oneAdvert)
	if s, err := w.status(1); err != nil || s.State != "initialize" || !strings.Contains(s.Fault, "is not there") {
		t.Errorf("status of the unhealthy one: %+v, %v", s, err)
	}
	begun = time.Now()
	touch()
	w.await("it is healthy again", 5*time.Second, func() bool {
		s, err := w.status(1)
		return err == nil && s.State == "backup"
	})
	w.awaitHolder(2) // it takes nothing back
	w.expect("healthy again", w.client.Since(begun), 50*time.Millisecond, 0)
}

// What others do to the address and the interface.
func TestVIPMended(t *testing.T) {
	nightly(t)
	w := newWire(t, 1)
	s := w.segment.Station(1)
	// A stranger has it: nothing is taken, and the log says who it is.
	stranger := w.segment.Station(w.machines + 2)
	eth, err := stranger.Netlink.LinkByName(segment.Interface)
	if err != nil {
		t.Fatal(err)
	}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: held.AsSlice(), Mask: net.CIDRMask(32, 32)}}
	if err := stranger.Netlink.AddrAdd(eth, address); err != nil {
		t.Fatal(err)
	}
	w.start(1, router(1), "")
	m := w.running[1]
	w.await("the stranger is named", 10*time.Second, func() bool {
		return strings.Contains(m.log.String(), "address "+held.String()+" is in use by "+stranger.MAC.String())
	})
	if w.on(1) {
		t.Error("the address was taken all the same")
	}
	if err := stranger.Netlink.AddrDel(eth, address); err != nil {
		t.Fatal(err)
	}
	w.await("it is taken once the stranger has gone", 10*time.Second, func() bool { return w.client.Last() == 1 })
	// Somebody takes the address away.
	own, err := s.Netlink.LinkByName(segment.Interface)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := s.Netlink.AddrDel(own, address); err != nil {
		t.Fatal(err)
	}
	w.await("it is back", time.Second, func() bool { return w.on(1) })
	w.expect("taken away", w.client.Since(begun), 20*time.Millisecond+slack/4, 0)
	// Somebody flushes the rules.
	begun = time.Now()
	w.flush(1)
	w.expect("rules flushed", w.client.Since(begun), 20*time.Millisecond+slack/4, 0)
	// The cable is pulled and plugged in.
	if err := s.Unplug(); err != nil {
		t.Fatal(err)
	}
	w.await("it lets go", 3*time.Second, func() bool { return !w.on(1) })
	if err := s.Plug(); err != nil {
		t.Fatal(err)
	}
	w.await("it holds again", 5*time.Second, func() bool { return w.on(1) })
	begun = time.Now()
	w.awaitHolder(1)
	w.expect("plugged in", w.client.Since(begun), 20*time.Millisecond+slack/4, 0)
}

// Addresses of both families move together, and a hook is told.
func TestVIPBothFamilies(t *testing.T) {
	w := newWire(t, 2)
	told := w.dir + "/told"
	hook := "    hooks: [{command: [/bin/sh, -c, 'echo $HOLDFAST_VIP_GROUP $HOLDFAST_VIP_STATE >> " + told + "'], on: [active]}]"
	six := netip.MustParseAddr("2001:db8::100")
	w.addresses = append(w.addresses, six)
	if err := w.client.Also(six); err != nil {
		t.Fatal(err)
	}
	w.start(1, router(1), hook)
	w.awaitHolder(1)
	w.start(2, router(2), "")
	w.await("the second is the backup", 5*time.Second, func() bool {
		s, err := w.status(2)
		return err == nil && s.State == "backup" && s.Fault == ""
	})
	if s, err := w.status(1); err != nil || s.NA == 0 || s.ARP == 0 || s.State != "active" {
		t.Errorf("status of the holder: %+v, %v", s, err)
	}
	begun := time.Now()
	w.stop(1)
	w.awaitHolder(2)
	w.expect("SIGTERM", w.client.Since(begun), 5*time.Millisecond+slack/4, oneAdvert)
	if s, err := w.status(2); err != nil || s.NA == 0 || s.State != "active" {
		t.Errorf("status of the next holder: %+v, %v", s, err)
	}
	if data, err := os.ReadFile(told); err != nil || string(data) != "api active\n" {
		t.Errorf("the hook was told %q, %v", data, err)
	}
}

// An address held by lease: the holder dies, freezes, and hands over; what decides
// stands still, and nobody moves.
func TestVIPByLease(t *testing.T) {
	w := newWire(t, 3)
	etcd := w.etcd()
	for i := 1; i <= 3; i++ {
		w.startByLease(i)
	}
	holder := w.awaitOne()
	w.await("all know the holder", 10*time.Second, func() bool {
		for i := 1; i <= 3; i++ {
			s, err := w.status(i)
			if err != nil || s.Holder != fmt.Sprintf("node-%d", holder) || !s.Contact {
				return false
			}
		}
		return true
	})
	begun := time.Now()
	if err := w.release(holder); err != nil {
		t.Fatal(err)
	}
	w.await("another answers", 5*time.Second, func() bool { return w.client.Last() != holder })
	holder = w.awaitOne()
	w.expect("release", w.client.Since(begun), 5*time.Millisecond+slack/4, time.Second+20*time.Millisecond)

	// Somebody flushes the rules.
	begun = time.Now()
	w.flush(holder)
	w.expect("rules flushed", w.client.Since(begun), 20*time.Millisecond+slack/4, 0)

	// etcd freezes for longer than two leases: it stays where it is.
	begun = time.Now()
	etcd.freeze(true)
	<-time.After(6 * time.Second)
	etcd.freeze(false)
	w.await("etcd is reached again", 10*time.Second, func() bool {
		s, err := w.status(holder)
		return err == nil && s.Contact
	})
	if got := w.client.Since(begun); got.Gap > slack/4 || len(got.By) != 1 || got.By[0] != holder {
		t.Errorf("while etcd stood still: gap %s, answered by %v", got.Gap, got.By)
		w.logs()
	}

	begun = time.Now()
	w.kill(holder, syscall.SIGSTOP)
	w.await("another answers", 10*time.Second, func() bool { return w.client.Last() != holder })
	next := w.awaitAnother(holder)
	w.expect("stopped", w.client.Since(begun), 3*time.Second+slack, 0)
	begun = time.Now()
	w.kill(holder, syscall.SIGCONT)
	w.await("it knows that it holds nothing", 5*time.Second, func() bool {
		s, err := w.status(holder)
		return err == nil && s.State == "backup" && s.Holder == fmt.Sprintf("node-%d", next)
	})
	w.awaitHolder(next)
	w.expect("continued", w.client.Since(begun), slack/4, 0)
}

// flush removes all rules of a machine, as the reload of many a firewall does, and
// waits until the gate is there again, and the address has outlived what it has left
// without being refreshed.
func (w *wire) flush(i int) {
	w.t.Helper()
	s := w.segment.Station(i)
	if err := s.Do(func() error { return exec.Command("nft", "flush", "ruleset").Run() }); err != nil {
		w.t.Fatal(err)
	}
	begun := time.Now()
	w.await("the gate is there again", 6*time.Second, func() bool {
		var out []byte
		err := s.Do(func() (err error) {
			out, err = exec.Command("nft", "list", "set", "inet", "holdfast_vip", "held4").CombinedOutput()
			return err
		})
		return err == nil && strings.Contains(string(out), held.String()) && time.Since(begun) > 3*time.Second
	})
}

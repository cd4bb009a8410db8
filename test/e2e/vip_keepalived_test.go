package e2e

import (
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

// keepalivedBy runs keepalived on a station with settings of its own.
func (w *wire) keepalivedBy(i int, global, instance string) {
	w.t.Helper()
	name := "keepalived-" + strconv.Itoa(i)
	conf := filepath.Join(w.dir, name+".conf")
	text := "global_defs {\n" + global + "\n}\nvrrp_instance api {\n  state BACKUP\n  interface " + segment.Interface +
		"\n  virtual_router_id 51\n" + instance + "\n}\n"
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	at := func(what string) string { return filepath.Join(w.dir, name+"."+what) }
	w.launch(i, nil, "keepalived", "--dont-fork", "--log-console", "--vrrp", "--use-file", conf, "--pid", at("pid"), "--vrrp_pid", at("vrrp"))
}

// What keepalived has on most machines: version 2 with adverts each second. Its
// password, which is no protection, is not understood, and said once.
func TestVIPBesideKeepalivedV2(t *testing.T) {
	nightly(t)
	needKeepalived(t)
	w := newWire(t, 2)
	const plain = "priority 200\nadvert_int 1\nvirtual_ipaddress {\n192.0.2.100/32\n}"
	// Three adverts and the skew of priority 200 or 210 (RFC 3768 section 6.1).
	const silence = 3*time.Second + 250*time.Millisecond
	w.keepalivedBy(2, "vrrp_version 2", plain)
	w.await("keepalived answers", 10*time.Second, func() bool { return w.client.Last() == 2 })
	w.start(1, "version: 2, priority: 210", "")
	w.awaitBackup(1, w.segment.Station(2).Four)
	begun := time.Now()
	if err := w.segment.Station(2).Silence(); err != nil {
		t.Fatal(err)
	}
	w.kill(2, syscall.SIGKILL)
	w.await("ours answers", 5*time.Second, func() bool { return w.client.Last() == 1 })
	w.expect("from dead keepalived to ours", w.client.Since(begun), silence+slack, 0)
	// Its kernel would answer for what keepalived has left behind.
	w.strip(2)
	if err := w.segment.Station(2).Rejoin(); err != nil {
		t.Fatal(err)
	}
	w.keepalivedBy(2, "vrrp_version 2", plain)
	begun = time.Now()
	w.await("it is our backup", 5*time.Second, func() bool { return strings.Contains(w.running[2].log.String(), "Entering BACKUP STATE") })
	w.awaitHolder(1)
	w.stop(1)
	w.awaitHolder(2)
	w.expect("SIGTERM, to keepalived", w.client.Since(begun), 5*time.Millisecond+slack/4, time.Second+20*time.Millisecond)

	// With a password the two do not understand each other.
	w.stop(2)
	w.start(1, "version: 2, priority: 210", "")
	w.awaitHolder(1)
	w.keepalivedBy(2, "vrrp_version 2", plain+"\nauthentication {\nauth_type PASS\nauth_pass secret\n}")
	const line = "authenticates itself (type 1); take the authentication out on 192.0.2.2"
	w.await("the line about the password", 10*time.Second, func() bool { return strings.Contains(w.running[1].log.String(), line) })
	// How many follow is keepalived's affair: it puts its own advert off with each
	// one of ours that it refuses.
	<-time.After(3 * time.Second)
	if log := w.running[1].log.String(); strings.Count(log, line) != 1 || strings.Count(log, "msg=state") != 2 {
		t.Errorf("more than the line about the password:\n%s", log)
	}
}

// strip takes the address off a station, as a reboot does.
func (w *wire) strip(i int) {
	w.t.Helper()
	s := w.segment.Station(i)
	all, err := s.Netlink.AddrList(nil, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, a := range all {
		for _, mine := range w.addresses {
			if !a.IP.Equal(mine.AsSlice()) {
				continue
			}
			l, err := s.Netlink.LinkByIndex(a.LinkIndex)
			if err == nil {
				err = s.Netlink.AddrDel(l, &a)
			}
			if err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// Adverts to peers one by one, as in networks without multicast.
func TestVIPBesideKeepalivedUnicast(t *testing.T) {
	nightly(t)
	needKeepalived(t)
	w := newWire(t, 2)
	w.keepalivedBy(2, "vrrp_version 3", "priority 200\nadvert_int 0.1\nunicast_peer {\n192.0.2.1\n}\nvirtual_ipaddress {\n192.0.2.100/32\n}")
	w.await("keepalived answers", 10*time.Second, func() bool { return w.client.Last() == 2 })
	w.start(1, "priority: 210, interval: 100ms, peers: [192.0.2.2]", "")
	w.awaitBackup(1, w.segment.Station(2).Four)
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
	w.expect("keepalived is heard again", w.client.Since(begun), 50*time.Millisecond+slack/4, oneAdvert)
	begun = time.Now()
	w.stop(1)
	w.awaitHolder(2)
	w.expect("SIGTERM, to keepalived", w.client.Since(begun), 5*time.Millisecond+slack/4, oneAdvert)
}

// IPv6 alone.
func TestVIPBesideKeepalivedIPv6(t *testing.T) {
	nightly(t)
	needKeepalived(t)
	w := newWire(t, 2)
	six := netip.MustParseAddr("2001:db8::100")
	w.addresses = []netip.Addr{six}
	calls := w.call(six)
	local := func(i int) netip.Addr { return netip.AddrFrom16([16]byte{0xfe, 0x80, 15: byte(i)}) }
	answers := func(i int) func() bool {
		return func() bool {
			return w.has(i, six) && !w.has(3-i, six) && w.client.Neighbor(six) == w.mac(i, six) && calls.since(time.Now().Add(-100*time.Millisecond))
		}
	}
	w.keepalivedBy(2, "vrrp_version 3", "priority 200\nadvert_int 0.1\nvirtual_ipaddress {\n2001:db8::100/128\n}")
	w.await("keepalived answers", 10*time.Second, answers(2))
	w.start(1, "priority: 210, interval: 100ms", "")
	w.awaitBackup(1, local(2))
	begun := time.Now()
	if err := w.segment.Station(2).Silence(); err != nil {
		t.Fatal(err)
	}
	w.await("ours answers", 330*time.Millisecond+2*slack, func() bool { return calls.since(begun.Add(200 * time.Millisecond)) })
	t.Logf("from silent keepalived to ours: a new connection after %s", time.Since(begun).Round(time.Millisecond))
	if err := w.segment.Station(2).Rejoin(); err != nil {
		t.Fatal(err)
	}
	w.await("ours answers alone", 5*time.Second, answers(1))
	w.stop(1)
	w.await("keepalived answers alone", 5*time.Second, answers(2))
	if calls.longest() > time.Second {
		t.Errorf("no new connection for %s", calls.longest())
	}
}

package link

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

var (
	four = netip.MustParseAddr("192.0.2.100")
	six  = netip.MustParseAddr("2001:db8::100")
)

func words(events []Event) string {
	var all []string
	for _, e := range events {
		all = append(all, e.String())
	}
	return strings.Join(all, "; ")
}

func TestViewTellsWhatChanges(t *testing.T) {
	v := newView([]string{"eth0"}, []netip.Addr{four, six})
	eth := Interface{Index: 2, Name: "eth0", MAC: "a", Up: true, Carrier: true}
	with := func(f func(*Interface)) Interface {
		f(&eth)
		return eth
	}
	at2, at3 := place{2, four}, place{3, six}
	for i, c := range []struct {
		got  []Event
		want string
	}{
		{v.present(Interface{Index: 1, Name: "lo", Up: true}), ""},
		{v.present(eth), "interface eth0 appeared"},
		{v.present(eth), ""},
		{v.present(with(func(i *Interface) { i.Carrier = false })), "interface eth0 carrier down"},
		{v.present(with(func(i *Interface) { i.Up = false })), "interface eth0 went down"},
		{v.present(with(func(i *Interface) { i.Up, i.Carrier = true, true })), "interface eth0 went up; interface eth0 carrier up"},
		{v.present(with(func(i *Interface) { i.MAC = "b" })), "interface eth0 new hardware address"},
		{v.found(at2), "address there 192.0.2.100 on eth0"},
		{v.found(at2), ""},
		{v.found(place{2, netip.MustParseAddr("192.0.2.1")}), ""},
		{v.found(at3), "address there 2001:db8::100 on interface 3"},
		{v.lost(at3), "address gone 2001:db8::100 on interface 3"},
		{v.lost(at3), ""},
		{v.present(with(func(i *Interface) { i.Name = "lan" })), "interface eth0 renamed to lan"},
		{v.present(with(func(i *Interface) { i.Carrier = false })), "interface lan carrier down"},
		{v.absent(7), ""},
		{v.absent(2), "address gone 192.0.2.100 on lan; interface lan gone"},
		{v.absent(2), ""},
		{v.present(Interface{Index: 9, Name: "eth0"}), "interface eth0 appeared"},
	} {
		if got := words(c.got); got != c.want {
			t.Errorf("step %d: %q, want %q", i, got, c.want)
		}
	}
}

func TestViewComparesWithAList(t *testing.T) {
	v := newView([]string{"eth0", "eth1"}, []netip.Addr{four, six})
	entry := func(index int, a netip.Addr) Entry {
		return Entry{Index: index, Prefix: netip.PrefixFrom(a, a.BitLen())}
	}
	first := []Interface{{Index: 2, Name: "eth0", Up: true}, {Index: 3, Name: "eth1"}}
	if got, want := words(v.replace(first, []Entry{entry(2, four), entry(3, four)})), "interface eth0 appeared; interface eth1 appeared; "+
		"address there 192.0.2.100 on eth0; address there 192.0.2.100 on eth1"; got != want {
		t.Errorf("at first %q, want %q", got, want)
	}
	if got := words(v.replace(first, []Entry{entry(3, four), entry(2, four)})); got != "" {
		t.Errorf("without a change: %q", got)
	}
	if got, want := words(v.replace([]Interface{{Index: 2, Name: "eth0", Up: true, Carrier: true}}, []Entry{entry(2, six)})),
		"address gone 192.0.2.100 on eth1; interface eth1 gone; interface eth0 carrier up; address gone 192.0.2.100 on eth0; address there 2001:db8::100 on eth0"; got != want {
		t.Errorf("after losses %q, want %q", got, want)
	}
}

func TestEntrySurvivesItsMessage(t *testing.T) {
	for _, a := range []Address{
		{Prefix: netip.PrefixFrom(four, 32)}, {Prefix: netip.PrefixFrom(four, 24), Global: true}, {Prefix: netip.PrefixFrom(six, 128)},
	} {
		want := a.entry(7)
		got, err := parseEntry(payload(want))
		if err != nil || got != want {
			t.Errorf("%+v came back as %+v, %v", want, got, err)
		}
		if !got.Ours() {
			t.Errorf("%+v is not taken for ours", got)
		}
	}
}

// payload is the message of an entry without its header.
func payload(e Entry) []byte {
	return e.request(unix.RTM_NEWADDR, 0).Serialize()[unix.SizeofNlMsghdr:]
}

func TestWhoseItIs(t *testing.T) {
	for e, want := range map[Entry]bool{
		{Protocol: Protocol, Valid: forever, Preferred: forever}: true,
		{Valid: 2}:                           true, // an older kernel
		{Valid: 60}:                          true,
		{Valid: 61}:                          false,
		{Valid: 2, Preferred: 2}:             false,
		{Valid: 2, Protocol: 2}:              false, // by router advertisement
		{Valid: forever, Preferred: forever}: false,
		{Valid: forever}:                     false, // deprecated by hand
		{Valid: 1, Protocol: 18}:             false, // keepalived's
	} {
		if e.Ours() != want {
			t.Errorf("%+v: ours is %v", e, !want)
		}
	}
}

func FuzzParseEntry(f *testing.F) {
	for _, a := range []netip.Addr{four, six} {
		f.Add(payload(Address{Prefix: netip.PrefixFrom(a, a.BitLen())}.entry(2)))
	}
	short := nl.NewIfAddrmsg(unix.AF_INET).Serialize()
	f.Add(short)
	f.Add([]byte("00000000\x05\x00000")) // without its padding
	f.Add(slices.Concat(short, nl.NewRtAttr(unix.IFA_CACHEINFO, []byte{1}).Serialize()))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseEntry(b)
		if err == nil && !e.Prefix.IsValid() {
			t.Errorf("read an address that is none: %+v", e)
		}
		_ = fmt.Sprint(e)
	})
}

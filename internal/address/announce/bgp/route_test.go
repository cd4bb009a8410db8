package bgp

import (
	"encoding/hex"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

var updateGolden = flag.Bool("update", false, "write golden files")

func prefixes(all ...string) []netip.Prefix {
	var p []netip.Prefix
	for _, a := range all {
		p = append(p, netip.MustParsePrefix(a))
	}
	return p
}

func pointer(n uint32) *uint32 { return &n }

// TestMessages shows what is sent, octet by octet and as gobgp reads it back.
func TestMessages(t *testing.T) {
	local := Local{Four: netip.MustParseAddr("192.0.2.2"), Six: netip.MustParseAddr("2001:db8::2")}
	external := peerConfig{address: netip.MustParseAddr("192.0.2.1"), as: 65001, ours: 65010, hold: DefaultHold, four: true, six: true, pref: 100}
	internal := external
	internal.as, internal.pref = 65010, 250
	rich := external
	rich.prepend, rich.med = 2, pointer(50)
	rich.communities, rich.large = []uint32{65010<<16 | 100, 0xFFFFFF01}, [][3]uint32{{65010, 1, 2}}
	wide := external
	wide.ours = 4200000001
	modern := Agreed{FourOctet: true, Four: true, Six: true}
	var b strings.Builder
	show := func(name string, m *packet.BGPMessage, err error) {
		if err != nil {
			fmt.Fprintf(&b, "%s\n  error: %v\n", name, err)
			return
		}
		data, err := m.Serialize()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		fmt.Fprintf(&b, "%s\n  %s\n", name, hex.EncodeToString(data[headerLength:]))
		back, err := packet.ParseBGPMessage(data)
		if strings.Contains(name, "of old") {
			return // gobgp takes paths to be wide unless told
		}
		if err != nil {
			t.Errorf("%s: gobgp does not read it: %v", name, err)
			return
		}
		if u, ok := back.Body.(*packet.BGPUpdate); ok {
			for _, w := range u.WithdrawnRoutes {
				fmt.Fprintf(&b, "  withdrawn %s\n", w.NLRI)
			}
			for _, a := range u.PathAttributes {
				fmt.Fprintf(&b, "  %s\n", a)
			}
			for _, n := range u.NLRI {
				fmt.Fprintf(&b, "  announced %s\n", n.NLRI)
			}
		}
	}
	announce := func(name string, p peerConfig, a Agreed, l Local, gshut bool, list ...string) {
		m, err := update(&p, a, l, prefixes(list...), gshut)
		show(name, m, err)
	}
	announce("external", external, modern, local, false, "203.0.113.10/32", "203.0.113.11/32")
	announce("external, IPv6", external, modern, local, false, "2001:db8:1::10/128")
	announce("internal", internal, modern, local, false, "203.0.113.10/32")
	announce("internal, graceful shutdown", internal, modern, local, true, "203.0.113.10/32")
	announce("external, with everything", rich, modern, local, false, "203.0.113.10/32")
	announce("external, graceful shutdown", rich, modern, local, true, "203.0.113.10/32")
	announce("wide number, peer of old", wide, Agreed{Four: true}, local, false, "203.0.113.10/32")
	announce("wide number", wide, modern, local, false, "203.0.113.10/32")
	given := external
	given.next4, given.next6 = netip.MustParseAddr("192.0.2.99"), netip.MustParseAddr("2001:db8::99")
	announce("next hop given", given, modern, local, false, "203.0.113.10/32")
	announce("next hop given, IPv6", given, modern, local, false, "2001:db8:1::10/128")
	six := Local{Six: local.Six}
	announce("IPv4 by an IPv6 next hop", external, Agreed{FourOctet: true, Four: true, NextHop6: true}, six, false, "203.0.113.10/32")
	announce("IPv4 without a next hop", external, modern, six, false, "203.0.113.10/32")
	announce("IPv6 without a next hop", external, modern, Local{Four: local.Four}, false, "2001:db8:1::10/128")
	m, err := withdrawal(prefixes("203.0.113.10/32"))
	show("withdrawal", m, err)
	m, err = withdrawal(prefixes("2001:db8:1::10/128"))
	show("withdrawal, IPv6", m, err)
	m, err = opening(&wide, netip.MustParseAddr("192.0.2.2"))
	show("OPEN", m, err)

	const golden = "testdata/messages.txt"
	if *updateGolden {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("got:\n%s\nwant:\n%s\nif that is meant, run with -update", got, want)
	}
}

// TestManyPrefixesFit checks the bound that batch promises.
func TestManyPrefixesFit(t *testing.T) {
	p := peerConfig{as: 65001, ours: 65010, hold: DefaultHold, prepend: 32, med: pointer(1)}
	for i := range mostCommunities {
		p.communities, p.large = append(p.communities, uint32(i)), append(p.large, [3]uint32{1, 2, uint32(i)})
	}
	var all []netip.Prefix
	for i := range batch {
		all = append(all, netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(i)}), 128))
	}
	m, err := update(&p, Agreed{FourOctet: true}, Local{Six: all[0].Addr()}, all, true)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := m.Serialize(); err != nil || len(data) > maxLength {
		t.Errorf("%d octets, %v", len(data), err)
	}
}

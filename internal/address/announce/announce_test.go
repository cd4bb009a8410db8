package announce

import (
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

var (
	four  = netip.MustParseAddr("192.0.2.10")
	six   = netip.MustParseAddr("2001:db8::10")
	ours  = MAC{0x02, 0, 0, 0, 0, 1}
	rival = MAC{0x02, 0, 0, 0, 0, 2}
)

// bytesOf reads hexadecimal digits with any space between them.
func bytesOf(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGratuitousOnTheWire(t *testing.T) {
	padding := strings.Repeat("00", 18)
	for _, c := range []struct {
		name string
		arp  ARP
		want string
	}{
		{"request", Gratuitous(four, ours, Request),
			"ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 c000020a 000000000000 c000020a"},
		{"reply", Gratuitous(four, ours, Reply),
			"ffffffffffff 020000000001 0806 0001 0800 06 04 0002 020000000001 c000020a 020000000001 c000020a"},
		{"probe", ProbeFor(four, ours),
			"ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 00000000 000000000000 c000020a"},
	} {
		frame := c.arp.Append(nil)
		if want := bytesOf(t, c.want+padding); string(frame) != string(want) {
			t.Errorf("%s:\ngot  %x\nwant %x", c.name, frame, want)
		}
		if got, err := ParseARP(frame); err != nil || got != c.arp {
			t.Errorf("%s: parsed %+v, %v", c.name, got, err)
		}
		if c.arp.IsProbe() != (c.name == "probe") {
			t.Errorf("%s: IsProbe is wrong", c.name)
		}
	}
}

func TestUnsolicitedOnTheWire(t *testing.T) {
	// tcpdump says of this frame: "icmp6 sum ok".
	want := bytesOf(t, `333300000001 020000000001 86dd
		60000000 0020 3a ff 20010db8000000000000000000000010 ff020000000000000000000000000001
		88 00 f90c 20 000000 20010db8000000000000000000000010 0201 020000000001`)
	n := Unsolicited(six, ours, false)
	frame := n.Append(nil)
	if string(frame) != string(want) {
		t.Errorf("\ngot  %x\nwant %x", frame, want)
	}
	if got, err := ParseNDP(frame); err != nil || got != n {
		t.Errorf("parsed %+v, %v", got, err)
	}
	router := Unsolicited(six, ours, true)
	if got, err := ParseNDP(router.Append(nil)); err != nil || !got.Router || !got.Override || got.Solicited {
		t.Errorf("as a router: %+v, %v", got, err)
	}
}

func TestSolicitGoesToItsGroup(t *testing.T) {
	n := SolicitFor(six, ours)
	if got, want := n.Destination, netip.MustParseAddr("ff02::1:ff00:10"); got != want {
		t.Errorf("group %s, want %s", got, want)
	}
	if got, want := n.To, (MAC{0x33, 0x33, 0xff, 0, 0, 0x10}); got != want {
		t.Errorf("frame to %s, want %s", got, want)
	}
	got, err := ParseNDP(n.Append(nil))
	if err != nil || got != n || !got.IsProbe() {
		t.Errorf("parsed %+v, %v", got, err)
	}
}

func TestBadARPIsRefused(t *testing.T) {
	good := Gratuitous(four, ours, Request).Append(nil)
	with := func(at int, b byte) []byte {
		frame := append([]byte(nil), good...)
		frame[at] = b
		return frame
	}
	for name, c := range map[string]struct {
		frame []byte
		want  error
	}{
		"empty":                  {nil, ErrShort},
		"header only":            {good[:14], ErrShort},
		"cut":                    {good[:41], ErrShort},
		"other ether type":       {with(13, 0), ErrKind},
		"other hardware":         {with(15, 6), ErrKind},
		"other protocol":         {with(16, 0x86), ErrKind},
		"other hardware length":  {with(18, 8), ErrKind},
		"other protocol length":  {with(19, 16), ErrKind},
		"reverse ARP's question": {with(21, 3), ErrKind},
	} {
		if _, err := ParseARP(c.frame); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := ParseARP(good[:42]); err != nil {
		t.Errorf("without padding: %v", err)
	}
}

func TestBadNDPIsRefused(t *testing.T) {
	good := Unsolicited(six, ours, false).Append(nil)
	with := func(at int, b byte) []byte {
		frame := append([]byte(nil), good...)
		frame[at] = b
		return frame
	}
	solicited := Unsolicited(six, ours, false)
	solicited.Solicited = true
	group := Unsolicited(allNodes, ours, false)
	telling := SolicitFor(six, ours)
	telling.LinkLayer = ours
	for name, c := range map[string]struct {
		frame []byte
		want  error
	}{
		"empty":                          {nil, ErrShort},
		"header only":                    {good[:14], ErrShort},
		"cut":                            {good[:85], ErrShort},
		"IPv4":                           {with(14, 0x45), ErrKind},
		"other protocol":                 {with(20, 17), ErrKind},
		"payload shorter than a message": {with(19, 23), ErrShort},
		"has crossed a router":           {with(21, 254), ErrHopLimit},
		"flipped bit":                    {with(70, 9), ErrChecksum},
		"router advertisement":           {with(54, 134), ErrKind},
		"solicited, to a group":          {solicited.Append(nil), ErrFormat},
		"for a group":                    {group.Append(nil), ErrFormat},
		"probe with an address":          {telling.Append(nil), ErrFormat},
		"option of length 0":             {resum(with(79, 0)), ErrFormat},
		"option longer than the rest":    {resum(with(79, 2)), ErrFormat},
		"code 1":                         {resum(with(55, 1)), ErrFormat},
	} {
		if _, err := ParseNDP(c.frame); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// resum mends the checksum of a message without options that changed.
func resum(frame []byte) []byte {
	p := frame[ethernetLength:]
	body := p[ipv6Length:]
	body[2], body[3] = 0, 0
	c := ^sum([16]byte(p[8:24]), [16]byte(p[24:40]), body)
	body[2], body[3] = byte(c>>8), byte(c)
	return frame
}

func TestOtherOptionsAreSkipped(t *testing.T) {
	n := Unsolicited(six, ours, false)
	n.LinkLayer = MAC{}
	body := n.appendICMP(nil)
	body = append(body, 14, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) // a nonce of 14 bytes
	body = append(append(body, optionTarget, 1), ours[:]...)
	frame := n.Append(nil)[:ethernetLength+ipv6Length]
	frame[19] = byte(len(body))
	got, err := ParseNDP(resum(append(frame, body...)))
	if err != nil || got.LinkLayer != ours {
		t.Errorf("parsed %+v, %v", got, err)
	}
}

func TestMACFromRefusesWhatIsNoStation(t *testing.T) {
	if m, err := MACFrom(net.HardwareAddr{2, 0, 0, 0, 0, 1}); err != nil || m != ours || m.String() != "02:00:00:00:00:01" {
		t.Errorf("%s, %v", m, err)
	}
	for _, hw := range []net.HardwareAddr{nil, {0, 0, 0, 0, 0, 0}, {1, 0, 0x5e, 0, 0, 1}, {2, 0, 0, 0, 0, 1, 0, 0}} {
		if _, err := MACFrom(hw); err == nil {
			t.Errorf("%s was taken", hw)
		}
	}
}

func FuzzParseARP(f *testing.F) {
	f.Add(Gratuitous(four, ours, Request).Append(nil))
	f.Add(Gratuitous(four, ours, Reply).Append(nil))
	f.Add(ProbeFor(four, ours).Append(nil)[:42])
	f.Fuzz(func(t *testing.T, frame []byte) {
		a, err := ParseARP(frame)
		if err != nil {
			return
		}
		if again, err := ParseARP(a.Append(nil)); err != nil || again != a {
			t.Errorf("%+v came back as %+v, %v", a, again, err)
		}
	})
}

func FuzzParseNDP(f *testing.F) {
	f.Add(Unsolicited(six, ours, true).Append(nil))
	f.Add(SolicitFor(six, ours).Append(nil))
	f.Fuzz(func(t *testing.T, frame []byte) {
		n, err := ParseNDP(frame)
		if err != nil {
			return
		}
		if again, err := ParseNDP(n.Append(nil)); err != nil || again != n {
			t.Errorf("%+v came back as %+v, %v", n, again, err)
		}
	})
}

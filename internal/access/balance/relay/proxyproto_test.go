package relay

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
)

func v2(command, family byte, body string) string {
	return string(v2Signature) + string([]byte{command, family, byte(len(body) >> 8), byte(len(body))}) + body
}

var proxyCases = []struct {
	name, in string
	source   string
	rest     string
	bad      bool
	partial  bool
}{
	{name: "v1 four", in: "PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\nrest", source: "192.0.2.1:56324", rest: "rest"},
	{name: "v1 six", in: "PROXY TCP6 2001:db8::1 ::1 1 65535\r\n", source: "[2001:db8::1]:1"},
	{name: "v1 mapped", in: "PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", source: "192.0.2.1:1"},
	{name: "v1 unknown", in: "PROXY UNKNOWN\r\nx", rest: "x"},
	{name: "v1 unknown with more", in: "PROXY UNKNOWN ffff:f::1 what ever\r\nx", rest: "x"},
	{name: "v1 longest", in: "PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n"},
	{name: "v1 too long", in: "PROXY UNKNOWN " + strings.Repeat("x", 100) + "\r\n", bad: true},
	{name: "v1 two spaces", in: "PROXY  TCP4 192.0.2.1 192.0.2.2 1 2\r\n", bad: true},
	{name: "v1 wrong family", in: "PROXY TCP4 ::1 ::1 1 2\r\n", bad: true},
	{name: "v1 leading zero", in: "PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n", bad: true},
	{name: "v1 port", in: "PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n", bad: true},
	{name: "v1 zone", in: "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", bad: true},
	{name: "v1 only LF", in: "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n" + strings.Repeat(" ", 100), bad: true},
	{name: "v1 no end", in: "PROXY TCP4 192.0.2.1", partial: true},
	{name: "one byte", in: "P", partial: true},
	{name: "nothing", in: "", partial: true},
	{name: "http", in: "GET / HTTP/1.1\r\n", bad: true},
	{name: "tls", in: "\x16\x03\x01", bad: true},
	{name: "v2 four", in: v2(v2Proxy, familyTCP4, "\x0a\x00\x00\x01\x0a\x00\x00\x02\x01\x00\x01\xbb") + "rest", source: "10.0.0.1:256", rest: "rest"},
	{name: "v2 tlv", in: v2(v2Proxy, familyTCP4, "\x0a\x00\x00\x01\x0a\x00\x00\x02\x01\x00\x01\xbb\x04\x00\x02ab") + "r", source: "10.0.0.1:256", rest: "r"},
	{name: "v2 six", in: v2(v2Proxy, familyTCP6, strings.Repeat("\x00", 15)+"\x01"+strings.Repeat("\x00", 16)+"\x00\x01\x00\x02"), source: "[::1]:1"},
	{name: "v2 unix", in: v2(v2Proxy, familyUnix, strings.Repeat("\x00", v2Unix)) + "r", rest: "r"},
	{name: "v2 unspec", in: v2(v2Proxy, familyUnspec, "xyz") + "r", rest: "r"},
	{name: "v2 local", in: v2(v2Local, 0x77, "any") + "r", rest: "r"},
	{name: "v2 datagram", in: v2(v2Proxy, 0x12, strings.Repeat("\x00", 12)), bad: true},
	{name: "v2 short block", in: v2(v2Proxy, familyTCP4, "short"), bad: true},
	{name: "v2 version 3", in: v2(0x31, familyTCP4, strings.Repeat("\x00", 12)), bad: true},
	{name: "v2 command", in: v2(0x22, familyTCP4, strings.Repeat("\x00", 12)), bad: true},
	{name: "v2 too long", in: v2(v2Local, 0, strings.Repeat("\x00", 5000)), bad: true},
	{name: "v2 signature begun", in: "\r\n\r\n\x00\r", partial: true},
	{name: "v2 cut", in: v2(v2Proxy, familyTCP4, strings.Repeat("\x00", 12))[:20], partial: true},
}

func TestParseProxy(t *testing.T) {
	for _, c := range proxyCases {
		t.Run(c.name, func(t *testing.T) {
			h, n, err := parseProxy([]byte(c.in))
			if c.bad != (err != nil) || c.partial != (err == nil && n == 0) {
				t.Fatalf("n %d, error %v", n, err)
			}
			if err != nil || n == 0 {
				return
			}
			if got := c.in[n:]; got != c.rest {
				t.Errorf("rest %q, want %q", got, c.rest)
			}
			if source := ""; h.source.IsValid() {
				if source = h.source.String(); source != c.source {
					t.Errorf("source %s, want %s", source, c.source)
				}
			} else if c.source != "" {
				t.Errorf("no source, want %s", c.source)
			}
		})
	}
}

func TestAppendProxy(t *testing.T) {
	four, six := netip.MustParseAddrPort("192.0.2.1:1"), netip.MustParseAddrPort("[2001:db8::1]:2")
	for _, version := range []int{1, 2} {
		for _, pair := range [][2]netip.AddrPort{{four, four}, {six, six}, {four, six}, {six, four}} {
			b := appendProxy(nil, version, pair[0], pair[1])
			h, n, err := parseProxy(append(b, "rest"...))
			if err != nil || n != len(b) || h.source != pair[0] || h.destination != pair[1] {
				t.Errorf("version %d %v: %q gave %v, %d of %d, %v", version, pair, b, h, n, len(b), err)
			}
		}
		b := appendProxy(nil, version, netip.AddrPort{}, four)
		if h, n, err := parseProxy(b); err != nil || n != len(b) || h.source.IsValid() {
			t.Errorf("version %d unknown: %q gave %v, %d, %v", version, b, h, n, err)
		}
	}
}

// FuzzParseProxy wants: no panic; what is cut short of a header is never taken
// for one; what was read is written again as something that reads the same.
func FuzzParseProxy(f *testing.F) {
	for _, c := range proxyCases {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := parseProxy(b)
		if err != nil || n == 0 {
			return
		}
		if n > len(b) || n > proxyV2Max {
			t.Fatalf("length %d of %d", n, len(b))
		}
		if _, m, err := parseProxy(b[:n-1]); m != 0 || err != nil {
			t.Fatalf("header of %d bytes; one less gives %d, %v", n, m, err)
		}
		for _, version := range []int{1, 2} {
			again := appendProxy(nil, version, h.source, h.destination)
			if g, m, err := parseProxy(again); err != nil || m != len(again) || g != h {
				t.Fatalf("%v written as %q reads as %v, %d, %v", h, again, g, m, err)
			}
		}
		if bytes.HasPrefix(b, v1Signature) && n > proxyV1Max {
			t.Fatalf("version 1 header of %d bytes", n)
		}
	})
}

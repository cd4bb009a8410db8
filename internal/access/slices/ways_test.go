package slices

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestOtherWays(t *testing.T) {
	own := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:6443"), netip.MustParseAddrPort("[::1]:6443"), netip.MustParseAddrPort("10.0.0.1:6443")}
	for _, c := range []struct{ servers, want string }{
		{"https://127.0.0.1:7445 https://127.0.0.1:6443", "127.0.0.1:7445"},
		{"https://localhost:6443 https://[::1]:6443", ""},
		{"https://10.0.0.1:6443 https://10.0.0.2:6443", "10.0.0.2:6443"},
		{"https://[::ffff:10.0.0.1]:6443 https://api.example.org", "api.example.org:443"},
	} {
		if got := strings.Join(otherWays(strings.Fields(c.servers), own), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.servers, got, c.want)
		}
	}
}

// The address that clients are given leads to the own apiserver as the loopback does.
func TestOwnDoors(t *testing.T) {
	r := newRig(t)
	r.dialer = newDialer("127.0.0.1:6443")
	others := otherWays([]string{"https://10.0.0.1:6443", "https://[::1]:6443", "https://127.0.0.1:6443"}, r.ownDoors())
	if len(others) != 0 {
		t.Errorf("others: %v", others)
	}
}

func TestWaysAreTried(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ways := []string{"127.0.0.1:1", l.Addr().String()}
	if !anyAnswers(t.Context(), ways) {
		t.Error("the second one answers")
	}
	_ = l.Close()
	if anyAnswers(t.Context(), ways) {
		t.Error("nobody is there")
	}
	for _, others := range [][]string{nil, ways} {
		if text := noOtherWay(others); !strings.Contains(text, "no server but the own apiserver answers") || !strings.Contains(text, "api.servers") {
			t.Error(text)
		}
	}
}

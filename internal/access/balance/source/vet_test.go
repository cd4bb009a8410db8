package source

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

func TestVet(t *testing.T) {
	_, network, _ := net.ParseCIDR("10.0.0.7/24")
	network.IP = net.ParseIP("10.0.0.7")
	own := ownIDs([]string{"127.0.0.1:7445", "0.0.0.0:8443", ":9443", "unix:/run/own.sock", "nonsense"}, []net.Addr{network})
	const listed = ""
	for _, c := range []struct{ address, strict, trusted string }{
		{"10.0.0.1:6443", listed, listed},
		{"[fd00::1]:6443", listed, listed},
		{"[::ffff:10.0.0.2]:6443", listed, listed},
		{"127.0.0.1:6443", "a loopback address", listed},
		{"[::1]:6443", "a loopback address", listed},
		{"[::ffff:127.0.0.1]:6443", "a loopback address", listed},
		{"169.254.1.1:6443", "a link-local address", listed},
		{"[fe80::1%eth0]:6443", "a link-local address", listed},
		{"unix:/run/x.sock", "a socket of this machine", listed},
		{"127.0.0.1:7445", "a listener of this balancer itself", "a listener of this balancer itself"},
		{"10.0.0.7:8443", "a listener of this balancer itself", "a listener of this balancer itself"},
		{"[::1]:9443", "a listener of this balancer itself", "a listener of this balancer itself"},
		{"unix:/run/own.sock", "a listener of this balancer itself", "a listener of this balancer itself"},
		{"10.0.0.8:8443", listed, listed},
		{"0.0.0.0:6443", "the unspecified address", "the unspecified address"},
		{"[::]:6443", "the unspecified address", "the unspecified address"},
		{"224.0.0.1:6443", "a multicast address", "a multicast address"},
		{"[ff02::1]:6443", "a multicast address", "a multicast address"},
		{"255.255.255.255:6443", "the broadcast address", "the broadcast address"},
		{"10.0.0.1:0", "port 0", "port 0"},
		{"10.0.0.1:65536", "not a number from 1 to 65535", "not a number from 1 to 65535"},
		{"10.0.0.1", "no port; write 10.0.0.1:6443", "no port; write 10.0.0.1:6443"},
		{"api.example.org:6443", "a name, not an IP address", "a name, not an IP address"},
		{"[fd00::1%eth0]:6443", "not link-local", "not link-local"},
		{"unix:relative", "not an absolute path", "not an absolute path"},
		{"unix:/" + strings.Repeat("x", 107), "over the 107 bytes", "over the 107 bytes"},
		{"", "not IP:PORT", "not IP:PORT"},
	} {
		for trusted, want := range map[bool]string{false: c.strict, true: c.trusted} {
			one := Backend{Network: "tcp", Address: c.address}
			if path, ok := strings.CutPrefix(c.address, "unix:"); ok {
				one = Backend{Network: "unix", Address: path}
			}
			good, reasons := rules{trusted: trusted, own: own}.vet([]Backend{one})
			if got := strings.Join(reasons, "; "); !strings.Contains(got, want) || (want == "") != (len(good) == 1) || (want == "") != (got == "") {
				t.Errorf("%s (trusted %t): %v, %q; want %q", c.address, trusted, good, got, want)
			}
		}
	}
}

func TestVetNormalisesAndFindsDuplicates(t *testing.T) {
	good, reasons := rules{}.vet([]Backend{
		{Network: "tcp", Address: "[::ffff:10.0.0.1]:6443"}, {Network: "tcp", Address: "10.0.0.1:6443"},
		{Network: "tcp", Address: "[fd00:0:0::1]:06443"}, {Network: "tcp", Address: "10.0.0.3:1", Weight: -1},
	})
	if len(good) != 2 || good[0].ID() != "10.0.0.1:6443" || good[1].ID() != "[fd00::1]:6443" || len(reasons) != 2 {
		t.Errorf("%v, %q", good, reasons)
	}
}

func TestVetKeepsWhatWasKnownInAFlood(t *testing.T) {
	var flood []Backend
	for i := range 3000 {
		flood = append(flood, Backend{Network: "tcp", Address: fmt.Sprintf("10.1.%d.%d:6443", i/250, i%250)})
	}
	flood = append(flood, bs("10.9.0.1", "10.9.0.2", "10.9.0.3")...)
	good, reasons := rules{known: map[string]bool{"10.9.0.1:6443": true, "10.9.0.3:6443": true, "10.9.0.4:6443": true}}.vet(flood)
	if len(good) != maxBackends || len(reasons) != 3003-maxBackends {
		t.Fatalf("%d good, %d rejected", len(good), len(reasons))
	}
	for _, id := range []string{"10.9.0.1:6443", "10.9.0.3:6443"} {
		if !contains(good, Backend{Network: "tcp", Address: id}) {
			t.Errorf("%s driven out", id)
		}
	}
}

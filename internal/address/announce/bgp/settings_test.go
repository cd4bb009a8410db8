package bgp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	strict "github.com/holdfast-ha/holdfast/internal/base/config"
)

func TestMistakesAreOneLine(t *testing.T) {
	dir := t.TempDir()
	secret, empty := filepath.Join(dir, "secret"), filepath.Join(dir, "empty")
	for name, text := range map[string]string{secret: "geheim\nrest\n", empty: "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	peer := func(lines string) string {
		return "as: 65010\npeers:\n- {address: 192.0.2.1, as: 65001, " + lines + "}\n"
	}
	ibgp := func(lines string) string {
		return "as: 65010\npeers:\n- {address: 192.0.2.1, as: 65010, " + lines + "}\n"
	}
	for _, c := range []struct{ yaml, want string }{
		{peer("port: 179"), ""},
		{peer("passwordFile: " + secret), ""},
		{peer("multihop: 4, families: [ipv4, ipv6], med: 0, prepend: 3, communities: [no-export, '65010:1'], largeCommunities: ['4200000000:1:2']"), ""},
		{ibgp("localPref: 0"), ""},
		{"as: 65010\npeers: [{address: 'fe80::1', interface: eth0, as: 65001}]\n", ""},
		{"as: 65010\nlisten: [0.0.0.0, '[::]:1179']\nrouterID: 192.0.2.2\nshutdown: gshut\nwait: 5s\npeers: [{address: 192.0.2.1, as: 65001}]\n", ""},
		{"peers: [{address: 192.0.2.1, as: 65001}]\n", "bgp.as: 0 is reserved"},
		{"as: 23456\npeers: [{address: 192.0.2.1, as: 65001}]\n", "bgp.as: 23456 is reserved"},
		{"as: 65010\n", "bgp.peers: none"},
		{"as: 65010\nrouterID: '::1'\npeers: [{address: 192.0.2.1, as: 65001}]\n", "bgp.routerID:"},
		{"as: 65010\nlisten: [port]\npeers: [{address: 192.0.2.1, as: 65001}]\n", "bgp.listen[0]:"},
		{"as: 65010\nshutdown: later\npeers: [{address: 192.0.2.1, as: 65001}]\n", "bgp.shutdown:"},
		{"as: 65010\nwait: 2m\npeers: [{address: 192.0.2.1, as: 65001}]\n", "bgp.wait:"},
		{"as: 65010\npeers: [{as: 65001}]\n", "bgp.peers[0].address: missing"},
		{"as: 65010\npeers: [{address: router1, as: 65001}]\n", "bgp.peers[0].address:"},
		{"as: 65010\npeers: [{address: 'fe80::1', as: 65001}]\n", "bgp.peers[0].interface: missing"},
		{"as: 65010\npeers: [{address: 192.0.2.1, as: 65001}, {address: 192.0.2.1, as: 65002}]\n", "bgp.peers[1].address: 192.0.2.1 stands twice"},
		{"as: 65010\npeers: [{address: 192.0.2.1}]\n", "bgp.peers[0].as: 0 is reserved"},
		{peer("port: 70000"), "peers[0].port:"},
		{peer("localAddress: '2001:db8::2'"), "peers[0].localAddress:"},
		{peer("interface: a-name-that-is-long"), "peers[0].interface:"},
		{peer("multihop: 300"), "peers[0].multihop:"},
		{peer("hold: 2s"), "peers[0].hold:"},
		{peer("hold: 3500ms"), "peers[0].hold:"},
		{peer("hold: 9s, keepalive: 5s"), "peers[0].keepalive:"},
		{peer("families: [ipx]"), "peers[0].families[0]:"},
		{peer("nextHopIPv4: '::1'"), "peers[0].nextHopIPv4:"},
		{peer("nextHopIPv6: 192.0.2.2"), "peers[0].nextHopIPv6:"},
		{peer("communities: ['70000:1']"), "peers[0].communities[0]:"},
		{peer("communities: [no-exports]"), "peers[0].communities[0]:"},
		{peer("largeCommunities: ['1:2']"), "peers[0].largeCommunities[0]:"},
		{peer("localPref: 200"), "peers[0].localPref: 200 would not be sent"},
		{peer("prepend: 33"), "peers[0].prepend:"},
		{ibgp("prepend: 1"), "peers[0].prepend: 1, but the peer is internal"},
		{peer("multihop: 4, bfd: {}"), "peers[0].bfd:"},
		{peer("bfd: {interval: 1ms}"), "peers[0].bfd.interval:"},
		{peer("bfd: {multiplier: 300}"), "peers[0].bfd.multiplier:"},
		{peer("passwordFile: " + dir + "/none"), "peers[0].passwordFile:"},
		{peer("passwordFile: " + empty), "peers[0].passwordFile:"},
	} {
		var s Settings
		if err := strict.Decode(strings.NewReader(c.yaml), "x", &s); err != nil {
			t.Fatalf("%s: %v", c.yaml, err)
		}
		errs := s.Validate("bgp.")
		switch {
		case c.want == "" && len(errs) > 0:
			t.Errorf("%s: got %v", c.yaml, errs)
		case c.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want) || strings.Contains(errs[0].Error(), "\n")):
			t.Errorf("%s: got %v, want one line with %q", c.yaml, errs, c.want)
		}
	}
}

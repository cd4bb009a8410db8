package conf

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func text(b *Block) string {
	var out strings.Builder
	var show func(b *Block, depth int)
	show = func(b *Block, depth int) {
		for _, c := range b.Blocks {
			fmt.Fprintf(&out, "%s%d %s\n", strings.Repeat("  ", depth), c.Line, strings.Join(c.Words, "|"))
			show(c, depth+1)
		}
	}
	show(b, 0)
	return out.String()
}

func TestFormats(t *testing.T) {
	for _, tc := range []struct{ name, got, want string }{
		{"haproxy", text(HAProxy([]byte("# c\nglobal\n  maxconn 1 # c\nbackend api\n\toption httpchk GET \"/ready z\"\n  server a 10.0.0.1:6443 check\n"))),
			"2 global\n  3 maxconn|1\n4 backend|api\n  5 option|httpchk|GET|/ready z\n  6 server|a|10.0.0.1:6443|check\n"},
		{"keepalived", text(Keepalived([]byte("! c\nvrrp_script chk {\n  script \"/bin/x { y\"\n}\nvrrp_instance A\n{\n  virtual_ipaddress { 10.0.0.1/24 }\n  state BACKUP\n}\n}\n"))),
			"2 vrrp_script|chk\n  3 script|/bin/x { y\n5 vrrp_instance|A\n  7 virtual_ipaddress\n    7 10.0.0.1/24\n  8 state|BACKUP\n"},
		{"frr", text(FRR([]byte("hostname a\nrouter bgp 65000\n neighbor 10.0.0.1 remote-as 65001\n address-family ipv4 unicast\n  network 10.1.0.0/24\n exit-address-family\n!\nbfd\n"))),
			"1 hostname|a\n2 router|bgp|65000\n  3 neighbor|10.0.0.1|remote-as|65001\n  4 address-family|ipv4|unicast\n    5 network|10.1.0.0/24\n  6 exit-address-family\n8 bfd\n"},
		{"assignments", text(Assignments([]byte("# c\nA = b c\n[Network]\nDHCP=yes\nword other\n"), "#;")), "2 A|b c\n3 Network\n  4 DHCP|yes\n  5 word|other\n"},
		{"nginx", text(NGINX([]byte("# c\nstream {\n upstream a { server 10.0.0.1:6443; # c\n  server\n   10.0.0.2:6443 }\n proxy_timeout 10m;\n}\n"))),
			"2 stream\n  3 upstream|a\n    3 server|10.0.0.1:6443\n    4 server|10.0.0.2:6443\n  6 proxy_timeout|10m\n"},
		{"lines", text(Lines([]byte("# c\n10.0.0.1 a b # c\n\n;x\nnameserver 10.0.0.2\n"), "#;")), "2 10.0.0.1|a|b\n5 nameserver|10.0.0.2\n"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s:\n%swant:\n%s", tc.name, tc.got, tc.want)
		}
	}
}

func TestBlocksAreAsked(t *testing.T) {
	b := HAProxy([]byte("backend api\n  server a h:1 check inter 2s\n  server b h:2\n"))
	s := b.First("backend", "api").All("server")
	if len(s) != 2 || s[0].After("inter") != "2s" || s[1].After("inter") != "" || s[0].Word(9) != "" || b.First("nothing").Word(0) != "" {
		t.Errorf("%+v", s)
	}
}

func FuzzFormats(f *testing.F) {
	f.Add("a {\n b { c }\n}\n")
	f.Add("router bgp 1\n neighbor x\n  y\n")
	f.Add("backend \"x\n server 'y\n")
	f.Fuzz(func(_ *testing.T, s string) {
		for _, read := range []func([]byte) *Block{HAProxy, NGINX, Keepalived, FRR, func(d []byte) *Block { return Assignments(d, "#") }, func(d []byte) *Block { return Lines(d, "#") }} {
			read([]byte(s)).Walk(func(b *Block) { _ = b.Text() })
		}
	})
}

func TestTimes(t *testing.T) {
	for _, tc := range []struct {
		text string
		read func(string) (time.Duration, error)
		want time.Duration
	}{
		{"2s", HAProxyTime, 2 * time.Second},
		{"500", HAProxyTime, 500 * time.Millisecond},
		{"1d", HAProxyTime, 24 * time.Hour},
		{"x", HAProxyTime, -1},
		{"0.1", Seconds, 100 * time.Millisecond},
		{"NaN", Seconds, -1},
		{"-1", Seconds, -1},
	} {
		got, err := tc.read(tc.text)
		if err != nil {
			got = -1
		}
		if got != tc.want {
			t.Errorf("%q: %s, %v, want %s", tc.text, got, err, tc.want)
		}
	}
}

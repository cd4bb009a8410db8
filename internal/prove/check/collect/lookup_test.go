package collect

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/source"
)

// nameServer answers on a port of 127.0.0.1, by UDP and TCP, as its table says; a name
// that begins with "big." only by TCP, "mute." not at all and "broken." with an error.
func nameServer(t *testing.T, zone map[string][]string) (port string) {
	t.Helper()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = udp.Close() })
	tcp, err := net.Listen("tcp", udp.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tcp.Close() })
	go func() {
		for buffer := make([]byte, 4096); ; {
			n, from, err := udp.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer := reply(buffer[:n], zone, true); answer != nil {
				_, _ = udp.WriteTo([]byte("xx of another"), from)
				_, _ = udp.WriteTo(answer, from)
			}
		}
	}()
	go serveTCP(tcp, zone)
	_, port, _ = net.SplitHostPort(udp.LocalAddr().String())
	return port
}

func serveTCP(l net.Listener, zone map[string][]string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		var size uint16
		if binary.Read(conn, binary.BigEndian, &size) == nil {
			query := make([]byte, size)
			if _, err := io.ReadFull(conn, query); err == nil {
				answer := reply(query, zone, false)
				_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
			}
		}
		_ = conn.Close()
	}
}

func reply(query []byte, zone map[string][]string, udp bool) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil {
		return nil
	}
	q := m.Questions[0]
	name := strings.TrimSuffix(q.Name.String(), ".")
	m.Response = true
	switch addresses, ok := zone[name]; {
	case strings.HasPrefix(name, "mute."):
		return nil
	case strings.HasPrefix(name, "broken."):
		m.RCode = dnsmessage.RCodeServerFailure
	case strings.HasPrefix(name, "big.") && udp:
		m.Truncated = true
	case !ok:
		m.RCode = dnsmessage.RCodeNameError
	default:
		for _, a := range addresses {
			ip, h := net.ParseIP(a), dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}
			switch four := ip.To4(); {
			case four != nil && q.Type == dnsmessage.TypeA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: [4]byte(four)}})
			case four == nil && q.Type == dnsmessage.TypeAAAA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: [16]byte(ip)}})
			}
		}
	}
	packed, _ := m.Pack()
	return packed
}

// Each answer of a real server becomes its outcome.
func TestDNS(t *testing.T) {
	port := nameServer(t, map[string][]string{"api.example.org": {"10.0.0.12", "10.0.0.9", "2001:db8::1"}, "big.example.org": {"10.0.0.1"}})
	for _, tc := range []struct{ server, name, outcome, addresses string }{
		{"127.0.0.1", "api.example.org", fact.LookupOK, "10.0.0.9 10.0.0.12 2001:db8::1"},
		{"127.0.0.1", "big.example.org", fact.LookupOK, "10.0.0.1"},
		{"127.0.0.1", "none.example.org", fact.LookupNone, ""},
		{"127.0.0.1", "broken.example.org", fact.LookupFailed, ""},
		{"127.0.0.1", "mute.example.org", fact.LookupSilent, ""},
		{"127.0.0.2", "api.example.org", fact.LookupFailed, ""}, // nobody listens there
		{"127.0.0.1", strings.Repeat("x", 300), fact.LookupFailed, ""},
		{"no server", "api.example.org", fact.LookupFailed, ""},
	} {
		l := dns("here", port)(context.Background(), tc.server, tc.name)
		if l.Outcome != tc.outcome || strings.Join(l.Addresses, " ") != tc.addresses || l.From != "here" || (l.Error == "") != (tc.outcome == fact.LookupOK || tc.outcome == fact.LookupNone) {
			t.Errorf("%s at %s: %+v, want %s %s", tc.name, tc.server, l, tc.outcome, tc.addresses)
		}
	}
}

// Every server is asked for every name, within bounds; the file is read back as facts.
func TestLookupsBecomeFacts(t *testing.T) {
	ask := func(_ context.Context, server, name string) fact.Lookup {
		return fact.Lookup{Name: name, Server: server, Outcome: fact.LookupOK, Addresses: []string{"10.0.0.100"}}
	}
	feed := source.NewFeed("x", source.DefaultLimits())
	state, err := Lookups(context.Background(), []string{"a.x", "b.x"}, []string{"1", "2", "3", "4"}, ask, feed)
	if err != nil {
		t.Fatal(err)
	}
	f, err := feed.Close(source.Manifest{Version: 1, States: map[string]source.Stated{"lookups": state}})
	if err != nil || len(f.Problems) > 0 || len(f.Lookups.Items) != 6 || f.Lookups.Items[5].Object.Server != "3" {
		t.Errorf("%v, %+v, %+v; want two names at the first three servers", err, f.Problems, f.Lookups)
	}
	for _, tc := range []struct {
		names, servers []string
		want           fact.State
	}{{nil, []string{"1"}, fact.Absent}, {[]string{"a.x"}, nil, fact.Unknown}} {
		if got, err := Lookups(context.Background(), tc.names, tc.servers, ask, feed); err != nil || got.State != tc.want.String() {
			t.Errorf("%v %v: %+v, %v", tc.names, tc.servers, got, err)
		}
	}
}

func TestNameServers(t *testing.T) {
	for _, tc := range []struct{ resolv, behind, want string }{
		{"nameserver 10.0.0.2\n# nameserver 10.0.0.9\nnameserver 10.0.0.3\nnameserver 10.0.0.2\n", "", "10.0.0.2 10.0.0.3"},
		{"nameserver 127.0.0.53\n", "nameserver 10.0.0.2\n", "10.0.0.2"},
		{"nameserver 127.0.0.53\n", "", "127.0.0.53"},
		{"search x\n", "nameserver 10.0.0.2\n", ""},
	} {
		root := t.TempDir()
		for name, text := range map[string]string{"etc/resolv.conf": tc.resolv, "run/systemd/resolve/resolv.conf": tc.behind} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := NameServers(root); err != nil || strings.Join(got, " ") != tc.want {
			t.Errorf("%q, %q: %v, %v", tc.resolv, tc.behind, got, err)
		}
	}
	if got, err := NameServers(t.TempDir()); err != nil || len(got) != 0 {
		t.Errorf("without a file: %v, %v", got, err)
	}
}

func FuzzAnswered(f *testing.F) {
	q := dnsmessage.Question{Name: dnsmessage.MustNewName("a.x."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{q}}
	packed, err := m.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(reply(packed, map[string][]string{"a.x": {"10.0.0.1"}}, true))
	f.Add(bytes.Repeat([]byte{0xc0}, 64))
	f.Fuzz(func(t *testing.T, data []byte) {
		addresses, _, err := answered(data, 7, q)
		if err != nil && len(addresses) > 0 {
			t.Errorf("%v beside %v", addresses, err)
		}
		if slices.ContainsFunc(addresses, func(a string) bool { return net.ParseIP(a) == nil }) {
			t.Errorf("%v", addresses)
		}
	})
}

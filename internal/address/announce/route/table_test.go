package route

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/segment"
)

func TestMistakesAreOneLine(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"no such table", Options{Table: "nowhere"}, "neither a number nor a name"},
		{"none", Options{}, "neither a number nor a name"},
		{"local", Options{Table: "255"}, "table of local addresses"},
		{"negative", Options{Table: "-1"}, "out of range"},
		{"kernel's", Options{Table: "198", Protocol: 2}, "5 to 255"},
		{"metric", Options{Table: "198", Metric: -1}, "negative"},
		{"interface", Options{Table: "198", Interface: "an-interface-of-old"}, "15 characters"},
		{"good", Options{Table: "198"}, ""},
	} {
		err := c.o.Validate()
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Errorf("%s: more than one line: %v", c.name, err)
		}
	}
}

func TestTablesHaveNames(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("rt_tables", "# names\n254\tmain\n0xc6 anycast # ours\nbroken\n")
	write("rt_tables.d/x.conf", "77 extra\n")
	for name, want := range map[string]int{"main": 254, "anycast": 198, "extra": 77, "12": 12} {
		if got, err := number(name, dir); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", name, got, err, want)
		}
	}
}

// station is one machine of a segment, with the table opened on it.
func station(t *testing.T) *segment.Station {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test must not be skipped in CI: run it as root")
		}
		t.Skip("namespaces need root")
	}
	g, err := segment.New(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g.Station(1)
}

func open(t *testing.T, s *segment.Station) *Table {
	t.Helper()
	var table *Table
	err := s.Do(func() (err error) {
		table, err = Open(Options{Table: "198"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// routes lists the table as the kernel has it.
func routes(t *testing.T, s *segment.Station) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		list, err := s.Netlink.RouteListFiltered(family, &netlink.Route{Table: 198}, netlink.RT_FILTER_TABLE)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			all[r.Dst.String()] = true
		}
	}
	return all
}

func TestTable(t *testing.T) {
	s := station(t)
	four, six := netip.MustParseAddr("203.0.113.10"), netip.MustParseAddr("2001:db8:1::10")

	first := open(t, s)
	for _, a := range []netip.Addr{four, six} {
		first.Up(a)
		first.Up(a)
	}
	if got := routes(t, s); len(got) != 2 || !got["203.0.113.10/32"] || !got["2001:db8:1::10/128"] {
		t.Fatalf("got %v", got)
	}
	// As if it had been killed: a second run clears the table.
	foreign := &netlink.Route{LinkIndex: 1, Dst: hostNet(t, "203.0.113.99/32"), Table: 198, Protocol: 186, Scope: netlink.SCOPE_LINK}
	if err := s.Netlink.RouteAdd(foreign); err != nil {
		t.Fatal(err)
	}
	second := open(t, s)
	if got := routes(t, s); len(got) != 1 || !got["203.0.113.99/32"] {
		t.Fatalf("after a crash: got %v, want the foreign route alone", got)
	}
	second.Up(four)

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- second.Run(ctx) }()
	if err := s.Netlink.RouteDel(&netlink.Route{Dst: hostNet(t, "203.0.113.10/32"), Table: 198, Scope: netlink.SCOPE_LINK}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the route is put back", func() bool { return routes(t, s)["203.0.113.10/32"] && second.Mended() > 0 })
	second.Down(four)
	second.Down(six) // which is not there
	if got := second.Trouble(); got != "" {
		t.Fatal(got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	second.Up(six)
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if got := routes(t, s); len(got) != 1 {
		t.Fatalf("after Close: got %v", got)
	}
}

// TestInterfaceComesLater: what cannot be done yet is done when it can.
func TestInterfaceComesLater(t *testing.T) {
	s := station(t)
	var table *Table
	err := s.Do(func() (err error) {
		table, err = Open(Options{Table: "198", Interface: "later"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- table.Run(ctx) }()
	table.Up(netip.MustParseAddr("203.0.113.10"))
	if got := table.Trouble(); !strings.Contains(got, "find interface later") {
		t.Errorf("trouble is %q", got)
	}
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "later"}, PeerName: "other"}
	if err := s.Netlink.LinkAdd(link); err != nil {
		t.Fatal(err)
	}
	if err := s.Netlink.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the route is there", func() bool { return routes(t, s)["203.0.113.10/32"] && table.Trouble() == "" })
	cancel()
	if err := errors.Join(<-ended, table.Close()); err != nil {
		t.Fatal(err)
	}
}

func hostNet(t *testing.T, text string) *net.IPNet {
	t.Helper()
	n, err := netlink.ParseIPNet(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); !f(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 15 s: %s", what)
		}
	}
}

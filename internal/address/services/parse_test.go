package services

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestParseSpan(t *testing.T) {
	for _, c := range []struct{ text, want, err string }{
		{"192.0.2.1-192.0.2.9", "192.0.2.1-192.0.2.9", ""},
		{" 192.0.2.1 - 192.0.2.9 ", "192.0.2.1-192.0.2.9", ""},
		{"192.0.2.16/28", "192.0.2.16-192.0.2.31", ""},
		{"192.0.2.1", "192.0.2.1", ""},
		{"2001:db8::/120", "2001:db8::-2001:db8::ff", ""},
		{"192.0.2.9-192.0.2.1", "", "smaller address first"},
		{"192.0.2.9-2001:db8::1", "", "two ranges"},
		{"192.0.2.1/28", "", "write 192.0.2.0/28"},
		{"192.0.2.300", "", "no IP address"},
		{"fe80::1%eth0", "", "no IP address"},
		{"0.0.0.0", "", "unicast"},
		{"224.0.0.0/24", "", "unicast"},
		{"", "", "no IP address"},
		{"::ffff:192.0.2.0/120", "", "write it as IPv4"},
	} {
		s, err := ParseSpan(c.text)
		switch {
		case c.err == "" && (err != nil || s.String() != c.want):
			t.Errorf("%q: %v, %v; want %s", c.text, s, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%q: error %v; want %q in it", c.text, err, c.err)
		}
	}
}

func TestSpanSize(t *testing.T) {
	for text, want := range map[string]uint64{"192.0.2.0/24": 256, "10.0.0.5": 1, "2001:db8::/64": 1<<64 - 1, "2001:db8::/72": 1 << 56} {
		s, err := ParseSpan(text)
		if err != nil || s.Size() != want {
			t.Errorf("%s: %d, %v; want %d", text, s.Size(), err, want)
		}
	}
}

func TestParseAddresses(t *testing.T) {
	for _, c := range []struct {
		text string
		want string
	}{
		{"192.0.2.1", "192.0.2.1"},
		{"192.0.2.1, 2001:db8::1", "192.0.2.1, 2001:db8::1"},
		{`["192.0.2.1"]`, "192.0.2.1"},
		{` ["192.0.2.1", "2001:db8::1"] `, "192.0.2.1, 2001:db8::1"},
		{"", ""}, {"[]", ""}, {"[1]", ""}, {`["192.0.2.1"`, ""}, {"192.0.2.1,", ""}, {"192.0.2.1 192.0.2.2", ""},
		{"192.0.2.1,192.0.2.1", ""}, {"0.0.0.0", ""}, {"web.example.org", ""}, {"192.0.2.0/24", ""},
	} {
		all, err := ParseAddresses(c.text)
		if (err != nil) != (c.want == "") || join(all) != c.want {
			t.Errorf("%q: %s, %v; want %q", c.text, join(all), err, c.want)
		}
	}
}

func FuzzParseAddresses(f *testing.F) {
	for _, s := range []string{"192.0.2.1", "192.0.2.1,2001:db8::1", `["192.0.2.1"]`, `["a", null]`, "[", "fe80::1%eth0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseAddresses(text)
		if (err == nil) != (len(all) > 0) {
			t.Fatalf("%d addresses, %v", len(all), err)
		}
		if err != nil {
			return
		}
		again, err := ParseAddresses(join(all))
		if err != nil || !slices.Equal(all, again) {
			t.Errorf("%v becomes %v: %v", all, again, err)
		}
	})
}

func FuzzParseSpan(f *testing.F) {
	for _, s := range []string{"192.0.2.1-192.0.2.9", "192.0.2.0/28", "2001:db8::/64", "::/0", "a-b", "1.2.3.4/", "-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSpan(text)
		if err != nil {
			return
		}
		if !s.Has(s.First) || !s.Has(s.Last) || s.Size() == 0 {
			t.Fatalf("%s does not have its ends, or no size", s)
		}
		again, err := ParseSpan(s.String())
		if err != nil || again != s {
			t.Errorf("%s becomes %s: %v", s, again, err)
		}
	})
}

func TestPoolsThatMeet(t *testing.T) {
	span := func(text string) Span {
		s, err := ParseSpan(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	c := Config{Pools: []Pool{{Name: "a", Spans: []Span{span("192.0.2.0/28")}}, {Name: "b", Spans: []Span{span("2001:db8::1"), span("192.0.2.15-192.0.2.20")}}}}
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "pool b") || !strings.Contains(err.Error(), "of pool a") {
		t.Errorf("overlapping pools: %v", err)
	}
	c.Pools[1].Spans[1] = span("192.0.2.16-192.0.2.20")
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	c.Pools[1].Name = "a"
	if err := c.Check(); err == nil {
		t.Error("two pools of one name")
	}
}

func TestElect(t *testing.T) {
	c := pools(t, "a 192.0.2.0/28,2001:db8::/120")
	web, mail := service("web", has("192.0.2.1", "2001:db8::1"), local), service("mail", has("192.0.2.2"))
	one, two := service("one", has("192.0.2.3"), note(AnnotationShare, "k")), service("two", has("192.0.2.3"), note(AnnotationShare, "k"), port(443))
	stray, late := service("stray", has("198.51.100.1")), service("late", has("192.0.2.2"))
	ready := map[Key][]string{{"default", "web"}: {"n2", "n1"}, {"default", "mail"}: {"n3"}}
	var got []string
	for _, e := range Elect(c, []Service{late, web, stray, mail, one, two}, ready) {
		line := e.Name
		for _, k := range e.Services {
			line += " " + k.Name
		}
		if e.Local {
			line += " on " + strings.Join(e.Nodes, ",")
		}
		got = append(got, line)
	}
	want := []string{
		"holdfast-service-192.0.2.1 web on n1,n2", "holdfast-service-192.0.2.2 mail", "holdfast-service-192.0.2.3 one two",
		"holdfast-service-2001-0db8-0000-0000-0000-0000-0000-0001 web on n1,n2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	e := Election{Local: true, Nodes: []string{"n1"}}
	if !e.Serves("n1") || e.Serves("n2") || (&Election{Local: true}).Serves("n1") || !(&Election{}).Serves("n2") {
		t.Error("wrong machines serve")
	}
	if n := nameOf(netip.MustParseAddr("2001:db8::")); strings.HasSuffix(n, "-") {
		t.Errorf("%s cannot be the name of a Lease", n)
	}
}

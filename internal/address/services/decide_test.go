package services

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
)

// pools reads "name addresses,addresses" lines.
func pools(t testing.TB, lines ...string) *Config {
	t.Helper()
	c := &Config{Taken: map[netip.Addr]string{}}
	for _, l := range lines {
		name, rest, _ := strings.Cut(l, " ")
		p := Pool{Name: name, Auto: true}
		for _, w := range strings.Split(rest, ",") {
			s, err := ParseSpan(w)
			if err != nil {
				t.Fatal(err)
			}
			p.Spans = append(p.Spans, s)
		}
		c.Pools = append(c.Pools, p)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return c
}

// service makes one of the given name, created in the order of calls, and lets the
// options change it.
var born int

func service(name string, options ...func(*Service)) Service {
	born++
	s := Service{Metadata: Meta{
		Name: name, Namespace: "default", UID: "uid-" + name, ResourceVersion: "1", Annotations: map[string]string{},
		Created: time.Unix(int64(born), 0).UTC().Format(time.RFC3339),
	}}
	s.Spec = Spec{Type: core.ServiceTypeLoadBalancer, Ports: []Port{{core.ProtocolTCP, 80}}, Families: []core.IPFamily{core.IPv4Protocol}, Selector: map[string]string{"app": name}}
	for _, o := range options {
		o(&s)
	}
	return s
}

func has(addresses ...string) func(*Service) {
	return func(s *Service) {
		s.Status.LoadBalancer.Ingress = nil
		for _, a := range addresses {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, Ingress{IP: a})
		}
	}
}

func note(name, value string) func(*Service) {
	return func(s *Service) { s.Metadata.Annotations[name] = value }
}

func dual(stack core.IPFamilyPolicy) func(*Service) {
	return func(s *Service) {
		s.Spec.Families, s.Spec.Stack = []core.IPFamily{core.IPv4Protocol, core.IPv6Protocol}, &stack
	}
}

func local(s *Service) { s.Spec.Policy = core.ServiceExternalTrafficPolicyLocal }

func port(n int32) func(*Service) {
	return func(s *Service) { s.Spec.Ports = []Port{{core.ProtocolTCP, n}} }
}

// outcome is a plan as lines: "web = 192.0.2.1" for what is written, "web: Reason
// message" for what is said, "web lacks: Reason" for what is pending.
func outcome(p Plan) []string {
	var all []string
	for _, w := range p.Writes {
		all = append(all, strings.TrimSpace(w.Service.Metadata.Name+" = "+join(w.Addresses)))
	}
	for _, n := range p.Notes {
		all = append(all, n.Service.Metadata.Name+": "+n.Reason)
	}
	for _, n := range p.Pending {
		all = append(all, n.Service.Name+" lacks: "+n.Reason)
	}
	return all
}

func TestDecide(t *testing.T) {
	class := "example.org/other"
	for _, c := range []struct {
		name  string
		pools []string
		all   []Service
		want  []string
	}{
		{"each gets the lowest that is free", []string{"a 192.0.2.1-192.0.2.3"},
			[]Service{service("x", has("192.0.2.2")), service("y"), service("z")}, []string{"y = 192.0.2.1", "z = 192.0.2.3"}},
		{"at rest nothing is written", []string{"a 192.0.2.1-192.0.2.3"}, []Service{service("x", has("192.0.2.2"))}, nil},
		{"a pool that is used up gives way to the next", []string{"a 192.0.2.1", "b 192.0.2.8"},
			[]Service{service("x"), service("y"), service("z")}, []string{"x = 192.0.2.1", "y = 192.0.2.8", "z: PoolExhausted", "z lacks: PoolExhausted"}},
		{"a request", []string{"a 192.0.2.0/28"}, []Service{service("x", note(AnnotationAddresses, `["192.0.2.9"]`))}, []string{"x = 192.0.2.9"}},
		{"a request by the old field", []string{"a 192.0.2.0/28"},
			[]Service{service("x", func(s *Service) { s.Spec.Address = "192.0.2.9" })}, []string{"x = 192.0.2.9"}},
		{"a request moves an address", []string{"a 192.0.2.0/28"},
			[]Service{service("x", has("192.0.2.1"), note("metallb.io/loadBalancerIPs", "192.0.2.9"))}, []string{"x = 192.0.2.9"}},
		{"a malformed request leaves what there is", []string{"a 192.0.2.0/28"},
			[]Service{service("x", has("192.0.2.1"), note("kube-vip.io/loadbalancerIPs", `["192.0.2.9"`))}, []string{"x: AddressMalformed"}},
		{"a malformed request is no silent pending", []string{"a 192.0.2.0/28"},
			[]Service{service("x", note(AnnotationAddresses, "192.0.2.300"))}, []string{"x: AddressMalformed", "x lacks: AddressMalformed"}},
		{"two requests that differ", []string{"a 192.0.2.0/28"},
			[]Service{service("x", note(AnnotationAddresses, "192.0.2.3"), note("metallb.io/loadBalancerIPs", "192.0.2.4"))},
			[]string{"x: AddressAmbiguous", "x lacks: AddressAmbiguous"}},
		{"two requests that agree", []string{"a 192.0.2.0/28"},
			[]Service{service("x", note(AnnotationAddresses, "192.0.2.3"), note("metallb.io/loadBalancerIPs", "192.0.2.3"))}, []string{"x = 192.0.2.3"}},
		{"outside of the pools", []string{"a 192.0.2.0/28"},
			[]Service{service("x", note(AnnotationAddresses, "198.51.100.1"))}, []string{"x: AddressOutsidePools", "x lacks: AddressOutsidePools"}},
		{"of a family that the Service has not", []string{"a 192.0.2.0/28,2001:db8::/120"},
			[]Service{service("x", note(AnnotationAddresses, "2001:db8::1"))}, []string{"x: AddressFamily", "x lacks: AddressFamily"}},
		{"in use", []string{"a 192.0.2.0/28"},
			[]Service{service("x", has("192.0.2.3")), service("y", note(AnnotationAddresses, "192.0.2.3"))}, []string{"y: AddressInUse", "y lacks: AddressInUse"}},
		{"in use by a Service of another class", []string{"a 192.0.2.1-192.0.2.2"},
			[]Service{service("x", has("192.0.2.1"), func(s *Service) { s.Spec.Class = &class }), service("y")}, []string{"y = 192.0.2.2"}},
		{"of another class, which is not touched", []string{"a 192.0.2.1-192.0.2.2"},
			[]Service{service("x", note(AnnotationAddresses, "nonsense"), func(s *Service) { s.Spec.Class = &class })}, nil},
		{"of another type", []string{"a 192.0.2.1-192.0.2.2"},
			[]Service{service("x", func(s *Service) { s.Spec.Type, s.Spec.ExternalIPs = core.ServiceTypeClusterIP, []string{"192.0.2.1"} }), service("y")}, []string{"y = 192.0.2.2"}},
		{"the older of two keeps what both have", []string{"a 192.0.2.1-192.0.2.2"},
			[]Service{service("x", has("192.0.2.1")), service("y", has("192.0.2.1"))}, []string{"y = 192.0.2.2", "y: AddressDuplicate"}},
		{"what is in no pool any more stays, and is said", []string{"a 192.0.2.1-192.0.2.2"},
			[]Service{service("x", has("198.51.100.1"))}, []string{"x: AddressUnpooled"}},
		{"what is in no pool moves when a pool is asked for", []string{"a 192.0.2.1-192.0.2.2"},
			[]Service{service("x", has("198.51.100.1"), note(AnnotationPool, "a"))}, []string{"x = 192.0.2.1"}},
		{"a pool is asked for", []string{"a 192.0.2.1-192.0.2.2", "b 192.0.2.8"}, []Service{service("x", note("metallb.io/address-pool", "b"))}, []string{"x = 192.0.2.8"}},
		{"a pool that is not there", []string{"a 192.0.2.1-192.0.2.2"}, []Service{service("x", note(AnnotationPool, "b"))}, []string{"x: PoolUnknown", "x lacks: PoolUnknown"}},
		{"sharing", []string{"a 192.0.2.1-192.0.2.2"},
			[]Service{service("x", note(AnnotationShare, "k")), service("y", note(AnnotationShare, "k"), port(443))}, []string{"x = 192.0.2.1", "y = 192.0.2.1"}},
		{"no sharing of a port", []string{"a 192.0.2.1-192.0.2.2"},
			[]Service{service("x", note(AnnotationShare, "k")), service("y", note(AnnotationShare, "k"))}, []string{"x = 192.0.2.1", "y = 192.0.2.2"}},
		{"no sharing of one with policy Local and one without", []string{"a 192.0.2.1"},
			[]Service{service("x", note(AnnotationShare, "k"), local), service("y", note(AnnotationShare, "k"), port(443), note(AnnotationAddresses, "192.0.2.1"))},
			[]string{"x = 192.0.2.1", "y: AddressInUse", "y lacks: AddressInUse"}},
		{"both families", []string{"a 192.0.2.1,2001:db8::/120"}, []Service{service("x", dual(core.IPFamilyPolicyRequireDualStack))}, []string{"x = 192.0.2.1, 2001:db8::"}},
		{"both or none", []string{"a 2001:db8::/120"}, []Service{service("x", dual(core.IPFamilyPolicyRequireDualStack)), service("y", func(s *Service) { s.Spec.Families[0] = core.IPv6Protocol })},
			[]string{"y = 2001:db8::", "x: PoolExhausted", "x lacks: PoolExhausted"}},
		{"both, or the one that there is", []string{"a 2001:db8::/120"}, []Service{service("x", dual(core.IPFamilyPolicyPreferDualStack))}, []string{"x = 2001:db8::", "x: PoolExhausted"}},
		{"a family that is gone", []string{"a 192.0.2.1,2001:db8::/120"}, []Service{service("x", has("192.0.2.1", "2001:db8::7"))}, []string{"x = 192.0.2.1"}},
		{"a family that is new", []string{"a 192.0.2.1,2001:db8::/120"},
			[]Service{service("x", dual(core.IPFamilyPolicyRequireDualStack), has("192.0.2.1"))}, []string{"x = 192.0.2.1, 2001:db8::"}},
		{"a request for one family of two", []string{"a 192.0.2.1-192.0.2.9,2001:db8::/120"},
			[]Service{service("x", dual(core.IPFamilyPolicyRequireDualStack), note(AnnotationAddresses, "2001:db8::5"))}, []string{"x = 192.0.2.1, 2001:db8::5"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := outcome(Decide(pools(t, c.pools...), c.all))
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestPoolsForSome has pools that are not for every Service.
func TestPoolsForSome(t *testing.T) {
	c := pools(t, "prod 192.0.2.1", "team 192.0.2.2", "hand 192.0.2.3")
	c.Pools[0].Namespaces, c.Pools[1].Selector, c.Pools[2].Auto = []string{"prod"}, map[string]string{"team": "a"}, false
	c.Taken[netip.MustParseAddr("192.0.2.2")] = "group api"
	all := []Service{
		service("x"), service("y", func(s *Service) { s.Metadata.Labels = map[string]string{"team": "a"} }),
		service("z", note(AnnotationAddresses, "192.0.2.3")), service("w", note(AnnotationPool, "prod")),
	}
	got := outcome(Decide(c, all))
	want := []string{"z = 192.0.2.3", "x: PoolRefused", "y: PoolExhausted", "w: PoolRefused", "x lacks: PoolRefused", "y lacks: PoolExhausted", "w lacks: PoolRefused"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// carryOut does what a plan says, as the API would.
func carryOut(p Plan) {
	for _, w := range p.Writes {
		var all []string
		for _, a := range w.Addresses {
			all = append(all, a.String())
		}
		has(all...)(w.Service)
	}
}

// TestDecideHolds judges plans of random Services: no address has two Services
// that may not share it, nobody is moved without a reason, and a second look writes
// nothing.
func TestDecideHolds(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := pools(t, "a 192.0.2.1-192.0.2.5,2001:db8::/125", "b 192.0.2.16/30")
		all := randomServices(r)
		before := map[string][]netip.Addr{}
		for i := range all {
			before[all[i].Metadata.Name] = all[i].addresses()
		}
		plan := Decide(c, all)
		duplicate := map[string]bool{}
		for _, n := range plan.Notes {
			duplicate[n.Service.Metadata.Name] = duplicate[n.Service.Metadata.Name] || n.Reason == ReasonDuplicate
			if n.Message == "" || strings.Contains(n.Message, "\n") {
				t.Errorf("seed %d: message %q", seed, n.Message)
			}
		}
		for _, w := range plan.Writes {
			asks := w.Service.Metadata.Annotations[AnnotationAddresses]+w.Service.Metadata.Annotations[AnnotationPool] != ""
			for _, a := range before[w.Service.Metadata.Name] {
				if !asks && !duplicate[w.Service.Metadata.Name] && slices.Contains(w.Service.Spec.Families, familyOf(a)) && !slices.Contains(w.Addresses, a) {
					t.Errorf("seed %d: %s is moved from %s", seed, w.Service.Metadata.Name, a)
				}
			}
		}
		carryOut(plan)
		judge(t, seed, all)
		if again := Decide(c, all).Writes; len(again) > 0 && !asksForFreed(again) {
			t.Errorf("seed %d: a second look writes %q", seed, outcome(Plan{Writes: again}))
		}
	}
}

// asksForFreed says that what is written in the second place is written for
// Services that waited for what others gave up in the first.
func asksForFreed(all []Write) bool {
	return !slices.ContainsFunc(all, func(w Write) bool { return len(w.Addresses) == 0 })
}

func randomServices(r *rand.Rand) []Service {
	var all []Service
	for i := range 3 + r.IntN(8) {
		s := service(fmt.Sprintf("s%d", i), port(80+r.Int32N(2)))
		if r.IntN(2) == 0 {
			dual([]core.IPFamilyPolicy{core.IPFamilyPolicyRequireDualStack, core.IPFamilyPolicyPreferDualStack}[r.IntN(2)])(&s)
		}
		if r.IntN(2) == 0 {
			note(AnnotationShare, "k")(&s)
		}
		if r.IntN(4) == 0 {
			local(&s)
		}
		switch r.IntN(6) {
		case 0:
			note(AnnotationAddresses, fmt.Sprintf("192.0.2.%d", r.IntN(8)))(&s)
		case 1:
			note(AnnotationPool, []string{"a", "b", "c"}[r.IntN(3)])(&s)
		}
		if r.IntN(2) == 0 {
			has(fmt.Sprintf("192.0.2.%d", 1+r.IntN(6)))(&s)
		}
		all = append(all, s)
	}
	return all
}

// judge finds addresses of two Services that may not share them.
func judge(t *testing.T, seed uint64, all []Service) {
	t.Helper()
	for i := range all {
		for k := range all[:i] {
			for _, a := range all[i].addresses() {
				w, _ := asked(&all[i])
				other, _ := asked(&all[k])
				if slices.Contains(all[k].addresses(), a) && (user{&all[k], other.share}).apart(&all[i], w.share) != "" {
					t.Errorf("seed %d: %s and %s both have %s", seed, all[k].Metadata.Name, all[i].Metadata.Name, a)
				}
			}
		}
	}
}

func many(n int) []Service {
	var all []Service
	for i := range n {
		all = append(all, service(fmt.Sprintf("s%03d", i)))
	}
	return all
}

// TestManyServices has 500 Services at once, and nothing to write afterwards.
func TestManyServices(t *testing.T) {
	c := pools(t, "a 10.0.0.0/22")
	all := many(500)
	begun := time.Now()
	plan := Decide(c, all)
	if d := time.Since(begun); d > time.Second {
		t.Errorf("500 new Services took %s", d)
	}
	if len(plan.Writes) != 500 {
		t.Fatalf("%d writes", len(plan.Writes))
	}
	carryOut(plan)
	if p := Decide(c, all); len(p.Writes)+len(p.Notes) > 0 {
		t.Errorf("at rest: %q", outcome(p))
	}
}

func BenchmarkDecideNew(b *testing.B) {
	c, all := pools(b, "a 10.0.0.0/22"), many(500)
	for b.Loop() {
		Decide(c, all)
	}
}

func BenchmarkDecideAtRest(b *testing.B) {
	c, all := pools(b, "a 10.0.0.0/22"), many(500)
	carryOut(Decide(c, all))
	for b.Loop() {
		Decide(c, all)
	}
}

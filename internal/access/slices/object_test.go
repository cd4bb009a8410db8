package slices

import (
	"encoding/json"
	"reflect"
	"testing"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// written is what the API would hold after a write.
func written(t *testing.T, w *plan.Write) *discovery.EndpointSlice {
	t.Helper()
	s := sight{raw: map[string]*discovery.EndpointSlice{}}
	data, err := body(&s, w)
	if err != nil {
		t.Fatal(err)
	}
	o, err := readObject[discovery.EndpointSlice]("slice", data)
	if err != nil {
		t.Fatal(err)
	}
	o.ResourceVersion = "7"
	return &o
}

var cases = []plan.Slice{
	{Name: "kubernetes-cp1", Version: "7", Owner: plan.Ours, Family: plan.IPv4, Node: "cp1", Address: "10.0.0.1", Port: 6443, Zone: "a", Hints: []string{"a"}, Ready: true},
	{Name: "kubernetes-cp1", Version: "7", Owner: plan.Ours, Family: plan.IPv4, Node: "cp1", Address: "10.0.0.1", Port: 6443, Zone: "a", Hints: []string{"a", "b"}, Ready: true, Lean: "x@1"},
	{Name: "kubernetes-cp1-ipv6", Version: "7", Owner: plan.Ours, Family: plan.IPv6, Node: "cp1", Address: "fd00::1", Port: 443, Zone: "a", Hints: []string{"a"}, UnreadyBy: "cp2"},
}

// What is written reads back as what was meant, and as nothing odd.
func TestSlicesReadAsWritten(t *testing.T) {
	for _, want := range cases {
		got := sliceOf(written(t, &plan.Write{Op: plan.CreateSlice, Slice: want}))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
	want := plan.Combined{Version: "7", Owner: plan.Ours, Family: plan.IPv4, Members: []plan.Member{
		{Address: "10.0.0.1", Node: "cp1", Zone: "a", Port: 6443, Ready: true}, {Address: "10.0.0.2", Node: "cp2", Zone: "b", Port: 6443},
	}}
	o := written(t, &plan.Write{Op: plan.CreateCombined, Combined: want})
	if got := combinedOf(o); !reflect.DeepEqual(*got, want) {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
	if _, there := o.Labels[discovery.LabelServiceName]; there || o.Labels[labelProxy] != plan.ProxyName {
		t.Errorf("datapaths would read it: %v", o.Labels)
	}
}

// Whatever somebody changes of a slice of ours is odd, and what the API adds is not.
func TestWhatIsOdd(t *testing.T) {
	yes, http := true, "http"
	for _, c := range []struct {
		name   string
		odd    bool
		change func(*discovery.EndpointSlice)
	}{
		{"nothing", false, func(*discovery.EndpointSlice) {}},
		{"a label of somebody", false, func(o *discovery.EndpointSlice) { o.Labels["team"] = "x" }},
		{"the Service's label gone", true, func(o *discovery.EndpointSlice) { delete(o.Labels, discovery.LabelServiceName) }},
		{"hidden from proxies", true, func(o *discovery.EndpointSlice) { o.Labels[labelProxy] = "x" }},
		{"no endpoint", true, func(o *discovery.EndpointSlice) { o.Endpoints = nil }},
		{"a second endpoint", true, func(o *discovery.EndpointSlice) { o.Endpoints = append(o.Endpoints, o.Endpoints[0]) }},
		{"a second address", true, func(o *discovery.EndpointSlice) {
			o.Endpoints[0].Addresses = append(o.Endpoints[0].Addresses, "10.0.0.9")
		}},
		{"terminating", true, func(o *discovery.EndpointSlice) { o.Endpoints[0].Conditions.Terminating = &yes }},
		{"a hint for nodes", true, func(o *discovery.EndpointSlice) {
			o.Endpoints[0].Hints.ForNodes = []discovery.ForNode{{Name: "n"}}
		}},
		{"another port name", true, func(o *discovery.EndpointSlice) { o.Ports[0].Name = &http }},
		{"no port", true, func(o *discovery.EndpointSlice) { o.Ports = nil }},
		{"readiness left out", false, func(o *discovery.EndpointSlice) { o.Endpoints[0].Conditions = discovery.EndpointConditions{} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := written(t, &plan.Write{Op: plan.CreateSlice, Slice: cases[0]})
			c.change(o)
			if got := sliceOf(o); got.Odd != c.odd {
				t.Errorf("odd is %t", got.Odd)
			}
		})
	}
}

func TestWhoWroteASlice(t *testing.T) {
	service := map[string]string{discovery.LabelServiceName: plan.ServiceName}
	ours := map[string]string{discovery.LabelServiceName: plan.ServiceName, discovery.LabelManagedBy: plan.ManagedBy}
	mirrored := map[string]string{discovery.LabelServiceName: plan.ServiceName, discovery.LabelManagedBy: "endpointslice-controller.k8s.io"}
	for _, c := range []struct {
		name   string
		labels map[string]string
		want   plan.Owner
	}{
		{"kubernetes", service, plan.Reconciler},
		{"kubernetes", ours, plan.Ours},
		{"kubernetes", mirrored, plan.Foreign},
		{"kubernetes", nil, plan.Foreign},
		{"kubernetes-cp1", ours, plan.Ours},
		{"kubernetes-cp1", service, plan.Foreign},
	} {
		o := bare(c.name)
		o.Labels = c.labels
		if got := ownerOf(&o); got != c.want {
			t.Errorf("%s %v: owner %d, want %d", c.name, c.labels, got, c.want)
		}
	}
}

func TestLeases(t *testing.T) {
	holder := "cp1_x"
	l := coordination.Lease{}
	l.Name, l.ResourceVersion, l.Spec.HolderIdentity = "holdfast-slices-cp1", "9", &holder
	l.Labels = map[string]string{labelManaged: plan.ManagedBy, core.LabelHostname: "cp1"}
	l.Annotations = map[string]string{plan.ApiserverAnnotation: "apiserver-1", plan.DistanceAnnotation: formatDistances([]plan.Distance{{Node: "cp3", Millis: 46}, {Node: "cp2", Millis: 1}})}
	got, ok := leaseOf(&l)
	want := plan.Lease{
		Role: plan.Agent, Name: l.Name, Token: "9", Holder: holder, Node: "cp1", Identity: "apiserver-1",
		Distances: []plan.Distance{{Node: "cp2", Millis: 1}, {Node: "cp3", Millis: 46}},
	}
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v %t\nwant %+v", got, ok, want)
	}
	l.Labels = map[string]string{labelIdentity: identityValue}
	if got, ok := leaseOf(&l); !ok || got.Role != plan.Identity {
		t.Errorf("identity read as %+v, %t", got, ok)
	}
	for _, name := range []string{lockName, leasePrefix, "kube-scheduler"} {
		l.Name, l.Labels = name, map[string]string{labelManaged: plan.ManagedBy}
		if got, ok := leaseOf(&l); ok {
			t.Errorf("%s read as %+v", name, got)
		}
	}
}

func TestDistancesOfOthersAreNotBelievedBlindly(t *testing.T) {
	for _, text := range []string{"", "x", `{"a":-1}`, `{"a":"b"}`, `[1]`, `{"a":1e99}`} {
		if got := parseDistances(text); len(got) != 0 {
			t.Errorf("%s read as %v", text, got)
		}
	}
}

// The dual-stack Node of every distribution: the first of each family.
func TestAddressesOfANode(t *testing.T) {
	n := core.Node{}
	for _, a := range []string{"10.0.0.1", "fd00::1", "10.0.0.2", "host"} {
		n.Status.Addresses = append(n.Status.Addresses, core.NodeAddress{Type: core.NodeInternalIP, Address: a})
	}
	n.Status.Addresses = append([]core.NodeAddress{{Type: core.NodeExternalIP, Address: "192.0.2.1"}}, n.Status.Addresses...)
	want := []plan.Address{{Family: plan.IPv4, IP: "10.0.0.1"}, {Family: plan.IPv6, IP: "fd00::1"}}
	if got := internalIPs(&n); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}

// FuzzSlice reads whatever the API may hold, and what the plan makes of it again.
func FuzzSlice(f *testing.F) {
	for i := range cases {
		s := sight{}
		data, err := body(&s, &plan.Write{Op: plan.CreateSlice, Slice: cases[i]})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"metadata":{"name":"kubernetes","labels":{"kubernetes.io/service-name":"kubernetes"}},"endpoints":[{},{"addresses":[]}],"ports":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var o discovery.EndpointSlice
		if json.Unmarshal(data, &o) != nil {
			return
		}
		s := sliceOf(&o)
		combinedOf(&o)
		if s.Owner != plan.Ours {
			return
		}
		s.Odd = false
		if again := sliceOf(written(t, &plan.Write{Op: plan.CreateSlice, Slice: s})); again.Odd || again.Ready != s.Ready || again.Address != s.Address {
			t.Errorf("%+v reads as %+v", s, again)
		}
	})
}

// FuzzLease reads whatever a Lease may hold.
func FuzzLease(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"holdfast-slices-cp1","labels":{"app.kubernetes.io/managed-by":"holdfast-slices"},"annotations":{"holdfast.dev/rtt":"{\"cp2\":1}"}}}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		var o coordination.Lease
		if json.Unmarshal(data, &o) == nil {
			leaseOf(&o)
		}
	})
}

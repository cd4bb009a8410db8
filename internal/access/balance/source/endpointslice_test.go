package source

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const (
	// kubernetesSlice is what the apiservers of a kubeadm cluster write.
	kubernetesSlice = `{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{"name":"kubernetes","namespace":"default","resourceVersion":"7","labels":{"kubernetes.io/service-name":"kubernetes"}},
 "addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":true}},{"addresses":["10.0.0.2"],"conditions":{"ready":true}}],"ports":[{"name":"https","protocol":"TCP","port":6443}]}`
	// serviceSlice is what the EndpointSlice controller writes for a Service
	// with a selector.
	serviceSlice = `{"metadata":{"name":"web-x7"},"addressType":"IPv4","ports":[{"name":"metrics","protocol":"TCP","port":9090},{"name":"https","protocol":"TCP","port":8443},{"name":"quic","protocol":"UDP","port":8443}],"endpoints":[
 {"addresses":["10.1.0.1"],"conditions":{"ready":true,"serving":true,"terminating":false},"nodeName":"n1","zone":"a","targetRef":{"kind":"Pod","name":"web-1"}},
 {"addresses":["10.1.0.2"],"conditions":{"ready":false,"serving":true,"terminating":true},"nodeName":"n2","zone":"b","targetRef":{"kind":"Pod","name":"web-2"}},
 {"addresses":["10.1.0.3"],"conditions":{"ready":false,"serving":false,"terminating":true},"hostname":"h"},
 {"addresses":["10.1.0.4"],"conditions":{"ready":false}},
 {"addresses":["10.1.0.5","10.1.0.99"]}]}`
)

func sliceOf(t *testing.T, text string) endpointSlice {
	t.Helper()
	var s endpointSlice
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBackendsOfSlices(t *testing.T) {
	tcp := func(address string) Backend { return Backend{Network: "tcp", Address: address, Serving: true} }
	with := func(b Backend, change func(*Backend)) Backend { change(&b); return b }
	for _, c := range []struct {
		name, in, reason string
		want             []Backend
	}{
		{"apiservers", kubernetesSlice, "", []Backend{tcp("10.0.0.1:6443"), tcp("10.0.0.2:6443")}},
		{
			"conditions, zones, named port", serviceSlice, "",
			[]Backend{
				with(tcp("10.1.0.1:8443"), func(b *Backend) { b.Zone, b.Node, b.Name = "a", "n1", "web-1" }),
				with(tcp("10.1.0.2:8443"), func(b *Backend) { b.Zone, b.Node, b.Name, b.Terminating = "b", "n2", "web-2", true }),
				with(tcp("10.1.0.3:8443"), func(b *Backend) { b.Name, b.Serving, b.Terminating = "h", false, true }),
				with(tcp("10.1.0.4:8443"), func(b *Backend) { b.Serving = false }),
				tcp("10.1.0.5:8443"),
			},
		},
		{"the only port", `{"addressType":"IPv6","endpoints":[{"addresses":["fd00::1"]}],"ports":[{"name":"odd","port":443}]}`, "", []Backend{tcp("[fd00::1]:443")}},
		{"FQDN", `{"addressType":"FQDN","endpoints":[{"addresses":["a.example.org"]}],"ports":[{"port":443}]}`, `slice x: addressType "FQDN": only IPv4 and IPv6 are used`, nil},
		{"several ports, none of that name", `{"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"]}],"ports":[{"name":"a","port":1},{"name":"b","port":2}]}`, `slice x: no TCP port named "https" among 2; name the one to use`, nil},
		{"UDP only", `{"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"]}],"ports":[{"name":"https","protocol":"UDP","port":1}]}`, `slice x: no TCP port named "https" among 0; name the one to use`, nil},
		{"every port", `{"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"]}],"ports":[{"name":"https"}]}`, `slice x: port "https" has no number`, nil},
		{"no ports", `{"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"]}]}`, `slice x: no TCP port named "https" among 0; name the one to use`, nil},
		{"port 0", `{"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"]}],"ports":[{"port":0}]}`, `slice x: port 0: not from 1 to 65535`, nil},
		{"entries judged alone", `{"addressType":"IPv4","endpoints":[{"addresses":["fd00::1"]},{"addresses":["api"]},{"addresses":[]},{"addresses":["10.0.0.1"]}],"ports":[{"port":1}]}`,
			`slice x: address fd00::1: of the wrong family in a slice of IPv4; slice x: address "api": not an IP address; slice x: an endpoint without address`, []Backend{tcp("10.0.0.1:1")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, reasons := backends(map[string]endpointSlice{"x": sliceOf(t, c.in)}, "https")
			if !slices.Equal(got, c.want) || strings.Join(reasons, "; ") != c.reason {
				t.Errorf("got  %+v, %q\nwant %+v, %q", got, reasons, c.want, c.reason)
			}
		})
	}
}

func TestBackendsUnitesSlices(t *testing.T) {
	slice := func(endpoints string) endpointSlice {
		return sliceOf(t, `{"addressType":"IPv4","ports":[{"port":1}],"endpoints":[`+endpoints+`]}`)
	}
	got, reasons := backends(map[string]endpointSlice{
		"a": slice(`{"addresses":["10.0.0.1"],"conditions":{"serving":false,"terminating":true}},{"addresses":["10.0.0.2"]}`),
		"b": slice(`{"addresses":["10.0.0.1"],"conditions":{"serving":true},"zone":"b"},{"addresses":["10.0.0.3"]}`),
		"c": slice(`{"addresses":["10.0.0.2"],"conditions":{"serving":true,"terminating":true}}`),
	}, "https")
	var all []string
	for _, b := range got {
		all = append(all, b.Address+" "+b.Zone)
		if !b.Serving || b.Terminating {
			t.Errorf("not the better of two: %+v", b)
		}
	}
	if want := []string{"10.0.0.1:1 b", "10.0.0.2:1 ", "10.0.0.3:1 "}; !slices.Equal(all, want) || len(reasons) > 0 {
		t.Errorf("%q, %q", all, reasons)
	}
}

// FuzzBackends checks that what comes out of any slice is an IP address with
// a port, once.
func FuzzBackends(f *testing.F) {
	f.Add(kubernetesSlice)
	f.Add(serviceSlice)
	f.Add(`{"addressType":"IPv6","ports":[{"port":70000}],"endpoints":[{"addresses":["fe80::1%eth0"]},{}]}`)
	f.Add(`{"endpoints":null,"ports":[{}]}`)
	f.Fuzz(func(t *testing.T, in string) {
		var s endpointSlice
		if json.Unmarshal([]byte(in), &s) != nil {
			return
		}
		list, _ := backends(map[string]endpointSlice{"a": s, "b": s}, "https")
		seen := map[string]bool{}
		for _, b := range list {
			if _, address, err := ParseAddress(b.Address); err != nil || address != b.Address || seen[address] {
				t.Fatalf("%+v: %v", b, err)
			}
			seen[b.Address] = true
		}
	})
}

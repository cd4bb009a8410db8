package sim

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// parse reads endpoints such as "1a:ab 2b:b! 3-:": name, zone, hints; "!" is unready.
func parse(text string) []Endpoint {
	var all []Endpoint
	for _, word := range strings.Fields(text) {
		e := Endpoint{Address: word[:1], Zone: strings.Trim(word[1:2], "-"), Ready: !strings.HasSuffix(word, "!")}
		if hints := strings.TrimSuffix(word[3:], "!"); hints != "" {
			e.Hints = strings.Split(hints, "")
		}
		all = append(all, e)
	}
	return all
}

func addressesOf(all []Endpoint) string {
	var out string
	for _, e := range all {
		out += e.Address
	}
	return out
}

func TestDatapaths(t *testing.T) {
	tests := []struct {
		name, endpoints, zone string
		kubeProxy, cilium     string
	}{
		{"own", "1a:a 2b:b 3c:c", "b", "2", "2"},
		{"adopted", "1a:a 2b:b! 3c:bc", "b", "3", "3"},
		{"own and adopter", "1a:a 2b:b 3c:bc", "b", "23", "23"},
		{"nobody hints it", "1a:a 2b:b!", "b", "1", "1"},
		{"unknown zone", "1a:a 2b:b", "z", "12", "12"},
		{"one ready without hint", "1a:a 2b: 3c:c", "a", "123", "123"},
		{"one unready without hint", "1a:a 2b:! 3c:c", "a", "1", "13"},
		{"one unready without zone", "1a:a 2-:b! 3c:c", "a", "1", "13"},
		{"the only hint is of an unready one", "1a:a! 2b:b 3c:c", "a", "23", "23"},
		{"none ready", "1a:a! 2b:b!", "a", "", ""},
		{"beside the reconciler's", "1a:a 2b:b 1-: 2-:", "a", "1212", "1212"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := addressesOf(KubeProxy(parse(test.endpoints), test.zone)); got != test.kubeProxy {
				t.Errorf("kube-proxy: %q, want %q", got, test.kubeProxy)
			}
			if got := addressesOf(Cilium119(parse(test.endpoints), test.zone)); got != test.cilium {
				t.Errorf("cilium: %q, want %q", got, test.cilium)
			}
		})
	}
}

func TestVisible(t *testing.T) {
	v := plan.View{
		Slices: []plan.Slice{
			{Family: plan.IPv4, Address: "1", Ready: true}, {Family: plan.IPv6, Address: "6", Ready: true},
		},
		Combined: &plan.Combined{Owner: plan.Ours, Family: plan.IPv4, Members: []plan.Member{{Address: "2", Ready: true}}},
	}
	if got := addressesOf(Visible(&v, plan.IPv4)); got != "1" {
		t.Errorf("ours is hidden: %q", got)
	}
	v.Combined.Owner = plan.Reconciler
	if got := addressesOf(Visible(&v, plan.IPv4)); got != "12" {
		t.Errorf("the apiservers' is not: %q", got)
	}
	if got := addressesOf(Visible(&v, plan.IPv6)); got != "6" {
		t.Errorf("another family: %q", got)
	}
}

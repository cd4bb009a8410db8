package seed

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rules"
)

// recorded is when the examples say nothing else.
var recorded = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func example(t *testing.T, rule, twin string, now time.Time) Seeding {
	t.Helper()
	files, err := fs.Sub(os.DirFS("../testdata/rules"), rule+"/"+twin)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Read(files, rule, twin, recorded, now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Every example is made by some means, and every object has a place in the API.
func TestEveryExampleCanBeSeeded(t *testing.T) {
	count := map[Means]int{}
	for _, r := range rules.All() {
		for _, twin := range []string{"broken", "healthy"} {
			s := example(t, r.ID, twin, recorded)
			if s.Unmade != "" {
				t.Logf("%s/%s: %s", r.ID, twin, s.Unmade)
				continue
			}
			if len(s.Means()) == 0 {
				t.Errorf("%s/%s: nothing to seed", r.ID, twin)
			}
			for _, m := range s.Means() {
				count[m]++
			}
			for _, o := range s.Objects {
				if o.Text("metadata", "name") == "" || o.resource().namespaced && o.Text("metadata", "namespace") == "" {
					t.Errorf("%s/%s: %s has no place", r.ID, twin, o)
				}
			}
			for address := range s.answers() {
				if _, err := netip.ParseAddrPort(address); err != nil {
					t.Errorf("%s/%s: %v", r.ID, twin, err)
				}
			}
			for node, files := range s.Machines {
				if !routes(files) {
					continue
				}
				if all, err := speakers(files); err != nil || len(all) < 2 {
					t.Errorf("%s/%s: %s speaks with %d machines: %v", r.ID, twin, node, len(all)-1, err)
				}
			}
		}
	}
	for _, m := range []Means{LiveObject, LiveTLS, LiveEtcd, LiveFRR, NodeFiles, ClientFile} {
		if count[m] == 0 {
			t.Errorf("no example is made by %s", m)
		}
	}
}

// What ended a day before the example was recorded ended a day ago; so do authorities
// in the text of a kubeconfig.
func TestTimesMove(t *testing.T) {
	now := recorded.AddDate(1, 2, 3)
	s := example(t, "HF-VIP-003", "broken", now)
	status := s.Objects[0].Get("status", "containerStatuses").([]any)[0].(map[string]any)
	if got := Object(status).Text("lastState", "terminated", "finishedAt"); got != now.Add(-33*time.Hour-48*time.Minute-51*time.Second).Format(time.RFC3339) {
		t.Errorf("finished at %s, and now is %s", got, now)
	}
	for _, p := range example(t, "HF-CERT-002", "broken", now).Probes {
		if left := p.NotAfter.Sub(now); left < 2*24*time.Hour || left > 3*24*time.Hour {
			t.Errorf("%s is left", left)
		}
	}
	for _, o := range example(t, "HF-CERT-008", "broken", now).Objects {
		_, text, _ := strings.Cut(o.Text("data", "kubeconfig"), "certificate-authority-data: ")
		data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(data)
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if left := c.NotAfter.Sub(now).Hours() / 24; left < 80 || left > 100 || !c.IsCA {
			t.Errorf("%.0f days are left of the authority, %t", left, c.IsCA)
		}
	}
}

// Addresses answer as the example has it, and the others that are asked as apiservers
// in order do.
func TestAnswers(t *testing.T) {
	s := example(t, "HF-CERT-003", "broken", recorded)
	all := s.answers()
	for _, address := range []string{"10.0.0.11:6443", "10.0.0.12:6443", "10.0.0.13:6443", "10.96.0.1:443"} {
		p, ok := all[address]
		if want := address != "10.0.0.12:6443"; !ok || slices.Contains(p.Names, "api.old.example.org") != want || p.Outcome != fact.ProbeOK {
			t.Errorf("%s: %+v", address, p)
		}
	}
	s = example(t, "HF-API-005", "broken", recorded)
	if p := s.answers()["10.0.0.100:6443"]; p.Outcome != fact.ProbeSilent {
		t.Errorf("%+v", p)
	}
	s = example(t, "HF-API-006", "broken", recorded)
	if p := s.answers()["10.0.0.14:6443"]; p.Outcome != fact.ProbeSilent {
		t.Errorf("%+v", p)
	}
	// Addresses that no object of the example names are published.
	s = example(t, "HF-CERT-002", "broken", recorded)
	if led := s.led(); !led["10.0.0.11:6443"] || !led["10.0.0.12:6443"] {
		t.Errorf("%v", led)
	}
}

func TestObjects(t *testing.T) {
	for _, tc := range []struct {
		o    Object
		want string
	}{
		{Object{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "a"}}, "/api/v1/nodes/a"},
		{Object{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": map[string]any{"name": "a", "namespace": "n"}}, "/apis/apps/v1/namespaces/n/daemonsets/a"},
		{Object{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": map[string]any{"name": "a", "namespace": "n"}}, "/apis/gateway.networking.k8s.io/v1/namespaces/n/gateways/a"},
		{Object{"apiVersion": "projectcalico.org/v3", "kind": "FelixConfiguration", "metadata": map[string]any{"name": "a"}}, "/apis/crd.projectcalico.org/v1/felixconfigurations/a"},
	} {
		tc.o.stored()
		if got := tc.o.path(); got != tc.want {
			t.Errorf("%s, want %s", got, tc.want)
		}
	}
	o := Object{"kind": "DaemonSet", "metadata": map[string]any{"name": "cilium"}, "spec": map[string]any{"template": map[string]any{}}}
	o.demanded()
	if o.Get("spec", "selector", "matchLabels", "app") != "cilium" || o.Get("spec", "template", "metadata", "labels", "app") != "cilium" {
		t.Errorf("%v", o)
	}
}

// Of the role that is shipped every object has its place.
func TestRoleIsReadWhole(t *testing.T) {
	data, err := os.ReadFile("../../../../deploy/check-role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all, err := documents(string(data), 0)
	if err != nil || len(all) != 3 {
		t.Fatalf("%v, %v", all, err)
	}
	if got := all[1].path(); got != "/api/v1/namespaces/kube-system/serviceaccounts/holdfast-check" {
		t.Error(got)
	}
}

package remote

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const hosts = `version: 1
hosts:
  - {name: cp-a, address: 10.0.1.10, user: root, key: id, site: a, role: server, networks: [10.244.1.0/24], units: {main: etcd.service, apiserver: kube-apiserver.service}}
  - {name: cp-b, address: 10.0.2.10, user: root, key: id, site: b, role: server, units: {main: etcd.service, apiserver: kube-apiserver.service}}
  - {name: w-b, address: "fd00:2::11", user: drill, sudo: true, key: id, site: b, role: worker}
  - {name: cp-c, address: 10.0.3.10, user: root, key: id, site: c, role: witness, units: {main: etcd.service}}
`

func inventory(t *testing.T) *Inventory {
	t.Helper()
	inv, err := ParseInventory("hosts.yaml", []byte(hosts))
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func build(t *testing.T, name string) (*Plan, error) {
	t.Helper()
	s, err := scenario.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Case(s.VariantNames()[0])
	if err != nil {
		t.Fatal(err)
	}
	return Build(c, inventory(t), 0)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run with -update and look at the difference", path)
	}
}

// everything is a scenario with each kind of fault that a host can have.
const everything = "testdata/everything.yaml"

func TestGolden(t *testing.T) {
	for _, name := range []string{"partial-split", "one-way", "site-loss", everything} {
		p, err := build(t, name)
		if err != nil {
			t.Fatal(err)
		}
		inv := inventory(t)
		base := strings.TrimSuffix(filepath.Base(name), ".yaml")
		golden(t, base+".plan", Print(p, inv))
		var b strings.Builder
		for _, h := range p.hosts(inv) {
			b.WriteString("# " + h.Name + ": look\n" + looking(h, p.of(h.Name)) + "# stage\n" + staging(h, p))
			for _, s := range p.Steps {
				if ops := s.on(h.Name); len(ops) > 0 {
					b.WriteString("# inject " + s.Name + "\n" + injecting(h, ops) + "# heal\n" + healing(h, ops))
				}
			}
		}
		golden(t, base+".sh", b.String())
	}
}

func TestWhatOnlyALabCanDo(t *testing.T) {
	for name, want := range map[string]string{
		"flap": "every: cannot", "vip-node-returns": "off: cannot", "pair-planned": "claim: cannot", "bgp-drain": "drain: cannot",
		"vip-agent-killed": "is no site or host", "nat-asymmetric": "cuts.via: a detour",
	} {
		if _, err := build(t, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", name, err, want)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	host := func(s string) string { return "version: 1\nhosts: [{" + s + "}]\n" }
	const good = "name: x, address: 10.0.0.1, user: root, site: a, role: server"
	for text, want := range map[string]string{
		"version: 2\n":                                          "version: 2 is unknown",
		"version: 1\n":                                          "hosts: none",
		host(good + ", password: x"):                            "password",
		host(good + ", dir: /"):                                 `dir: "/"`,
		host(good + ", dir: /tmp/../x"):                         "clean absolute path",
		host(good + ", dir: '/tmp/$(x)'"):                       "dir:",
		host(good + ", units: {a: ssh.service}"):                "keeps the host reachable",
		host(good + ", units: {a: 'x; rm'}"):                    "is no service",
		host(good + ", networks: [0.0.0.0/0]"):                  "networks[0]",
		host(good + ", ssh: 10.0.0.1"):                          "is no HOST:PORT",
		host(strings.Replace(good, "10.0.0.1", "127.0.0.1", 1)): "address:",
		host(strings.Replace(good, "server", "cook", 1)):        "role:",
		host(strings.Replace(good, "name: x", "name: a", 1)):    "is also a site",
		host(good + "}, {" + good):                              "is also that of hosts[0]",
	} {
		_, err := ParseInventory("hosts.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v; want a line with %q", text, err, want)
		}
	}
}

func FuzzInventory(f *testing.F) {
	f.Add([]byte(hosts))
	f.Fuzz(func(t *testing.T, data []byte) {
		inv, err := ParseInventory("x", data)
		if err != nil {
			return
		}
		for _, h := range inv.Hosts {
			if strings.ContainsAny(h.Dir+h.Name, "'\"$`\n ;") {
				t.Fatalf("%q reaches a shell", h.Dir)
			}
		}
	})
}

package lab

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (run with -update to accept):\n%s", path, got)
	}
}

func TestSpecMistakes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Spec)
		want   string
	}{
		{"lab name", func(s *Spec) { s.Name = "A b" }, `lab name "A b" is not usable: use`},
		{"no sites", func(s *Spec) { s.Sites = nil }, "has 0 sites: give"},
		{"site name like a node", func(s *Spec) { s.Sites[0].Name = "a1" }, `site name "a1" is not usable: use`},
		{"site twice", func(s *Spec) { s.Sites[1].Name = "a" }, `site "a" is given twice: rename`},
		{"too many nodes", func(s *Spec) { s.Sites[0].Nodes = 201 }, "site a has 201 nodes: give 1 to 200"},
		{"unknown site in link", func(s *Spec) { s.Links[0].B = "z" }, `link a-z names the unknown site "z": use a, b, c`},
		{"link to itself", func(s *Spec) { s.Links[0].B = "a" }, "joins a site to itself: name two"},
		{"link twice", func(s *Spec) { s.Links[1] = Link{A: "b", B: "a"} }, "link b-a is given twice: remove"},
		{"negative delay", func(s *Spec) { s.Links[0].Delay = -time.Second }, "delay of -1s: give"},
		{"jitter", func(s *Spec) { s.Links[0].Jitter = time.Hour }, "jitter of 1h0m0s: give"},
		{"total loss", func(s *Spec) { s.Links[0].Loss = 1 }, "loss of 1: give"},
		{"slow rate", func(s *Spec) { s.Links[0].Rate = 100 }, "rate of 100 bit/s: give at least"},
		{"cluster name", func(s *Spec) { s.Etcd[0].Name = "" }, `etcd cluster name "" is not usable: use`},
		{"cluster twice", func(s *Spec) { s.Etcd = append(s.Etcd, Cluster{Name: "main"}) }, `etcd cluster "main" is given twice: rename`},
		{"port clash", func(s *Spec) { s.Etcd = append(s.Etcd, Cluster{Name: "two", ClientPort: 2380}) }, "uses port 2380, which belongs to main: choose"},
		{"metrics port clash", func(s *Spec) { s.Etcd = append(s.Etcd, Cluster{Name: "two", ClientPort: 2381}) }, "uses port 2381, which belongs to main: choose"},
		{"port of the echo", func(s *Spec) { s.Etcd[0].ClientPort = 7 }, "uses port 7: give"},
		{"apiservers without etcd", func(s *Spec) { s.APIServers, s.Etcd = true, nil }, "apiservers have no etcd cluster to store in: add"},
		{"port of the apiservers", func(s *Spec) { s.APIServers, s.Etcd[0].ClientPort = true, 6443 }, "etcd cluster main uses port 6443, which belongs to the apiservers: choose"},
		{"endpoints", func(s *Spec) { s.APIServers, s.APIServer.Endpoints = true, "etcd" }, `apiserver.endpoints is "etcd": use lease or none`},
		{"etcd of the apiservers", func(s *Spec) { s.APIServers, s.APIServer.Etcd = true, "all" }, `apiserver.etcd has "all": use list, leave it out, or give https://`},
		{"one of the apiservers' etcd", func(s *Spec) { s.APIServers, s.APIServer.Etcd = true, "https://127.0.0.1:2381,http://10.77.1.11:2379" }, `apiserver.etcd has "http://10.77.1.11:2379": use`},
		{"kubernetes without etcd", func(s *Spec) { s.Kubernetes, s.Etcd = true, nil }, "kubernetes has no etcd cluster to store in: add"},
		{"port of the kubelets", func(s *Spec) { s.Kubernetes, s.Etcd[0].ClientPort = true, 10250 }, "etcd cluster main uses port 10250, which belongs to the kubelets: choose"},
		{"version of kubernetes", func(s *Spec) { s.KubernetesOptions.Version = "1.9" }, `kubernetes_options.version is "1.9": use 1.35 or 1.37`},
		{"server of the nodes", func(s *Spec) { s.KubernetesOptions.NodeServer = "127.0.0.1:7445" }, `kubernetes_options.node_server is "127.0.0.1:7445": give https://`},
		{"more apiservers than nodes", func(s *Spec) { s.Sites[0].APIServers = 2 }, "site a has 2 apiservers on 1 nodes: give at most one per node"},
		{"version", func(s *Spec) { s.Peer = "2.3" }, `etcd version "2.3" is unknown: use one of 3.7, 3.6, 3.5`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := mustDefault(t, "rtt")
			tt.change(&s)
			_, err := s.complete()
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want …%s…", err, tt.want)
			}
		})
	}
}

func TestDefaultIsTheSeed(t *testing.T) {
	if _, err := Default("moon"); err == nil || !strings.Contains(err.Error(), "use lan, rtt, one-way") {
		t.Errorf("unknown preset: %v", err)
	}
	var b strings.Builder
	for _, preset := range Presets() {
		s, err := mustDefault(t, preset).complete()
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(preset + "\n")
		for _, l := range s.Links {
			b.WriteString("  " + describe(l) + "\n")
		}
		for _, c := range s.Etcd {
			data, _ := json.Marshal(c)
			b.WriteString("  " + string(data) + "\n")
		}
	}
	golden(t, "presets.txt", b.String())
}

func TestCompleteLeavesTheCallersSpecAlone(t *testing.T) {
	s := mustDefault(t, "rtt")
	if _, err := s.complete(); err != nil {
		t.Fatal(err)
	}
	if s.Sites[0].Nodes != 0 {
		t.Error("complete wrote into the caller's sites")
	}
}

func TestPlan(t *testing.T) {
	s := mustDefault(t, "rtt")
	s.Sites[1].Nodes = 2
	s, err := s.complete()
	if err != nil {
		t.Fatal(err)
	}
	p := newPlan(s)
	var b strings.Builder
	for _, s := range p.sites {
		b.WriteString(s.Name + " " + s.gate4.String() + " " + s.gate6.String() + "\n")
		for _, n := range s.nodes {
			b.WriteString("  " + n.name + " " + n.ip4.String() + " " + n.ip6.String() + "\n")
		}
	}
	for _, l := range p.links {
		for _, e := range l.ends {
			b.WriteString(e.site + " " + e.ifname + " " + e.ip4.String() + " " + e.ip6.String() + "\n")
		}
	}
	golden(t, "plan.txt", b.String())
}

// TestPlanIsFreeOfClashes plans the largest mesh.
func TestPlanIsFreeOfClashes(t *testing.T) {
	s := Spec{}
	for i := range maxSites {
		s.Sites = append(s.Sites, Site{Name: string(rune('a'+i/26)) + string(rune('a'+i%26)), Nodes: 1})
		for k := range i {
			s.Links = append(s.Links, Link{A: s.Sites[i].Name, B: s.Sites[k].Name})
		}
	}
	s, err := s.complete()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	add := func(a string) {
		if seen[a] {
			t.Fatalf("%s is given twice", a)
		}
		seen[a] = true
	}
	p := newPlan(s)
	for _, n := range p.nodes() {
		add(n.ip4.String())
		add(n.ip6.String())
	}
	for _, l := range p.links {
		for _, e := range l.ends {
			add(e.ip4.Addr().String())
			add(e.ip6.Addr().String())
		}
		if l.ends[0].ip4.Masked() != l.ends[1].ip4.Masked() || l.ends[0].ip6.Masked() != l.ends[1].ip6.Masked() {
			t.Fatalf("ends of %s-%s are in different networks", l.A, l.B)
		}
	}
}

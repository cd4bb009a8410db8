package lab

import (
	"strings"
	"testing"
	"time"
)

func TestUnits(t *testing.T) {
	for in, want := range map[string]uint64{"0": 0, "100Mbit": 1e8, "1.5mbit/s": 1500000, "64kbit": 64000, "1Gbit": 1e9, "80000bit": 80000} {
		if got, err := parseRate(in); err != nil || got != want {
			t.Errorf("rate %s: %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "100", "-1mbit", "1e30gbit", "NaNbit", "mbit"} {
		if got, err := parseRate(in); err == nil || !strings.Contains(err.Error(), "give a unit") {
			t.Errorf("rate %q: %d, %v", in, got, err)
		}
	}
	for in, want := range map[string]float64{"20%": 0.2, "0.5": 0.5, "0": 0} {
		if got, err := parseLoss(in); err != nil || got != want {
			t.Errorf("loss %s: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "100%", "-1", "NaN", "x"} {
		if _, err := parseLoss(in); err == nil {
			t.Errorf("loss %q was accepted", in)
		}
	}
	if _, err := parseDelay("40"); err == nil || !strings.Contains(err.Error(), "give a unit") {
		t.Errorf("delay without unit: %v", err)
	}
}

func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"100Mbit", "0", "1e3kbit/s", "-0bit"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := parseRate(s); err == nil && v > maxRate {
			t.Errorf("%q became %d", s, v)
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	f.Add([]byte(`{"version":1,"name":"default","pid":1,"ticks":2,"boot":"x","data":"/dev/shm/holdfast-lab-default-1","spaces":[{"node":"a1","fd":5,"id":{"inode":1,"cookie":2}}],"members":[{"cluster":"main","node":"a1"}]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeState(data, "default")
		if err != nil {
			return
		}
		_, _ = s.enter("a1")
		_, _ = s.environ("a1", "main")
		if s.ids() != nil && s.Boot != bootID() {
			t.Error("namespaces of another boot were believed")
		}
	})
}

func FuzzParseTicks(f *testing.F) {
	f.Add("12 (a b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20")
	f.Add("12 (x) Z 1")
	f.Add(")")
	f.Fuzz(func(t *testing.T, s string) { _, _ = parseTicks(s) })
}

func TestParseTicks(t *testing.T) {
	stat := "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20"
	if got, err := parseTicks(stat); err != nil || got != 4711 {
		t.Errorf("got %d, %v", got, err)
	}
	if _, err := parseTicks(strings.Replace(stat, "S", "Z", 1)); err == nil {
		t.Error("a zombie counts as running")
	}
}

func TestCutFlags(t *testing.T) {
	f := cutFlags{name: "x", onlyNew: true, tcp: true, reset: true, ports: []uint{80, 443}}
	cuts, err := f.cuts([]string{"a-b", "b>c"})
	if err != nil || len(cuts) != 2 {
		t.Fatalf("got %v, %v", cuts, err)
	}
	if s := cuts[1].String(); s != "b>c new tcp port 80,443 reset" || cuts[1].Name != "x-2" {
		t.Errorf("got %s named %s", s, cuts[1].Name)
	}
	if _, err := (cutFlags{ports: []uint{70000}}).cuts([]string{"a"}); err == nil || !strings.Contains(err.Error(), "use 1 to 65535") {
		t.Errorf("port 70000: %v", err)
	}
}

func TestWriteReport(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 678e6, time.UTC)
	r := Report{
		Version: reportVersion, Name: "default", Pid: 4711, Dir: "/run/holdfast/lab/default", Started: at,
		Environment: map[string]string{"kernel": "6.18.0", "links": "tun", "preset": "rtt", "etcd": "etcd-3.7", "data": "memory"},
		Sites:       []Site{{Name: "a"}, {Name: "c", Witness: true}},
		Nodes:       []NodeReport{{"a1", "a", "10.77.1.11", "fd77:1::11", "Ready"}, {"c1", "c", "10.77.2.11", "fd77:2::11", "not registered"}},
		Links:       []LinkReport{{A: "a", B: "c", Method: methodTun, DelayMS: 11.5, RateBPS: 1e8, Loss: 0.2, RTTMS: 23.1}},
		Cuts:        []CutReport{{"peers", "a-c port 2380", at}},
		Matrix: []Cell{
			{"a1", "c1", map[Kind]bool{KindUDP: true, KindUDP6: true, KindFlow: true, KindVXLAN: true, KindNew: true, KindKept: true, "tcp/2380": false}},
			{"c1", "a1", map[Kind]bool{KindUDP: true, KindKept: true}},
		},
		Mismatches: []string{"c1 to a1 by new is blocked, declared open"},
		Members: []MemberReport{
			{Cluster: "main", Name: "a1", ClientURL: "https://10.77.1.11:2379", Running: true, LeaderName: "a1", Status: &MemberStatus{ID: 1, Leader: 1, Term: 3, Revision: 9}},
			{Cluster: "main", Name: "b1", ClientURL: "https://10.77.2.11:2379", Running: true, Status: &MemberStatus{ID: 2, Term: 3, Revision: 8}},
			{Cluster: "main", Name: "c1", ClientURL: "https://10.77.3.11:2379"},
		},
		APIServers: []APIServerReport{
			{Name: "a1", URL: "https://10.77.1.11:6443", Running: true, Ready: true},
			{Name: "b1", URL: "https://10.77.2.11:6443", Running: true, Error: "apiserver b1 answers 500: etcd failed: reason withheld"},
			{Name: "c1", URL: "https://10.77.3.11:6443"},
		},
		Components: []ComponentReport{
			{Kind: "kube-controller-manager", Node: "a1", Running: true, Healthy: true},
			{Kind: "kube-controller-manager", Node: "c1"},
			{Kind: "kube-scheduler", Node: "c1", Running: true, Error: "kube-scheduler c1: it answers 500: leaderElection failed"},
		},
	}
	var b strings.Builder
	if err := writeReport(&b, r); err != nil {
		t.Fatal(err)
	}
	golden(t, "status.txt", b.String())
}

func TestSampleSpec(t *testing.T) {
	c := command{name: "t"}
	s, err := c.buildSpec(upFlags{preset: "rtt", spec: "sample.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "t" || s.Sites[0].Zone != "eu-1a" || s.Sites[1].Zone != "b" || s.Links[0].Jitter != 500*time.Microsecond || s.Etcd[0].PeerPort != 2380 || s.Peer != "3.7" {
		t.Errorf("got %+v", s)
	}
	if _, err := c.buildSpec(upFlags{preset: "rtt", spec: "none.yaml"}); err == nil {
		t.Error("a missing file was accepted")
	}
}

func TestBuildSpec(t *testing.T) {
	c := command{name: "t"}
	s, err := c.buildSpec(upFlags{preset: "lan", peer: "3.5", clusters: []string{"main", "events"}, disk: true})
	if err != nil || len(s.Etcd) != 2 || s.Etcd[1].ClientPort != 2389 || s.Peer != "3.5" || !s.Disk {
		t.Errorf("got %+v, %v", s, err)
	}
	if s, err := c.buildSpec(upFlags{preset: "lan", clusters: []string{"none"}}); err != nil || len(s.Etcd) > 0 {
		t.Errorf("got %+v, %v", s, err)
	}
}

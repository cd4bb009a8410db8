package pair

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/supervise"
)

func goodSettings() Settings {
	s := defaultSettings()
	s.Arbiter = arbiter.Settings{URL: "http://127.0.0.1:1/x"}
	s.command = []string{"etcd"}
	return s
}

// TestSettingsNameWhatIsWrong: a mistake is one line with the field, the value and
// what to write.
func TestSettingsNameWhatIsWrong(t *testing.T) {
	for want, change := range map[string]func(*Settings){
		`profile: "x"; write default or seed`:             func(s *Settings) { s.Profile = "x" },
		`loser: "x"; write stop or serve-stale`:           func(s *Settings) { s.Loser = "x" },
		"arbiter.url: not set":                            func(s *Settings) { s.Arbiter.URL = "" },
		`prefix: "/registry/x"`:                           func(s *Settings) { s.Prefix = "/registry/x" },
		"set both or neither":                             func(s *Settings) { s.Etcd.Username = "root" },
		"0 ways given to run etcd":                        func(s *Settings) { s.command = nil },
		"2 ways given to run etcd":                        func(s *Settings) { s.Unit = "etcd.service" },
		`clients: "10.0.0.1"; write tcp://HOST:PORT`:      func(s *Settings) { s.Clients = []string{"10.0.0.1"} },
		"lostAfter: 1s; write a time from 2s to 1h0m0s":   func(s *Settings) { s.LostAfter = time.Second },
		`stateDir: ""; write a directory`:                 func(s *Settings) { s.StateDir = "" },
		"headStart: 1ms; write a time from 500ms to 1m0s": func(s *Settings) { s.HeadStart = time.Millisecond },
	} {
		s := goodSettings()
		change(&s)
		err := s.check()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want one line with %q", err, want)
		}
	}
	s := goodSettings()
	if err := s.check(); err != nil {
		t.Error(err)
	}
}

func ownEtcd() supervise.Etcd {
	return supervise.Etcd{
		Name: "a", AdvertiseClient: []string{"https://10.1.0.10:2379"}, AdvertisePeer: []string{"https://10.1.0.10:2380"},
		InitialCluster:  map[string][]string{"a": {"https://10.1.0.10:2380"}, "b": {"https://[fd00::2]:2380"}},
		ElectionTimeout: time.Second, Heartbeat: 100 * time.Millisecond,
	}
}

// TestAdoptTakesWhatEtcdWasTold: nothing has to be written twice.
func TestAdoptTakesWhatEtcdWasTold(t *testing.T) {
	s := goodSettings()
	if err := s.adopt(ownEtcd()); err != nil {
		t.Fatal(err)
	}
	if s.Name != "a" || s.Peer.Name != "b" || s.Peer.URL != "https://[fd00::2]:2380" || s.Peer.Client != "https://[fd00::2]:2379" || s.Etcd.Endpoint != "https://10.1.0.10:2379" {
		t.Errorf("%+v", s)
	}
}

func TestAdoptNamesWhatIsMissing(t *testing.T) {
	for want, change := range map[string]func(*Settings, *supervise.Etcd){
		`peer.name: ""`: func(_ *Settings, e *supervise.Etcd) {
			e.InitialCluster["c"] = []string{"https://10.3.0.10:2380"}
		},
		`prefer: "c"; write a or b`:                     func(s *Settings, _ *supervise.Etcd) { s.Prefer = "c" },
		"lostAfter: 3s; write at least 10s":             func(_ *Settings, e *supervise.Etcd) { e.ElectionTimeout = 5 * time.Second },
		`etcd.endpoint: "unix://x"`:                     func(s *Settings, _ *supervise.Etcd) { s.Etcd.Endpoint = "unix://x" },
		`peer.name: "a"; write the other member's name`: func(s *Settings, _ *supervise.Etcd) { s.Peer.Name = "a" },
		`--initial-cluster does not name "c"`:           func(_ *Settings, e *supervise.Etcd) { e.Name = "c" },
		`peer.url: "https://10.1.0.10:2380" is this member's own`: func(_ *Settings, e *supervise.Etcd) {
			e.InitialCluster["b"] = e.InitialCluster["a"]
		},
		`peer.client: "https://10.1.0.10:2379" is this member's own`: func(s *Settings, _ *supervise.Etcd) { s.Peer.Client = "https://10.1.0.10:2379" },
		`peer.client: "https://u:p@10.2.0.10:2379"; write`:           func(s *Settings, _ *supervise.Etcd) { s.Peer.Client = "https://u:p@10.2.0.10:2379" },
		`peer.client: "https://:2379"; write`:                        func(s *Settings, _ *supervise.Etcd) { s.Peer.Client = "https://:2379" },
		"stuckAfter: 10s is less than lostAfter: 40s": func(s *Settings, _ *supervise.Etcd) {
			s.LostAfter, s.StuckAfter = 40*time.Second, 10*time.Second
		},
	} {
		s, e := goodSettings(), ownEtcd()
		change(&s, &e)
		if err := s.adopt(e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

package bgp

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// A peer group is no neighbour; what it says holds for its members, and their own
// word counts more.
func TestSessionsOfPeerGroups(t *testing.T) {
	f := &fact.Facts{}
	f.Files.Add(&fact.File{Node: "r", Path: "/etc/frr/frr.conf", Data: []byte(`router bgp 65000
 bgp graceful-restart
 neighbor UP peer-group
 neighbor UP remote-as 65001
 neighbor UP timers 3 9
 neighbor UP bfd
 neighbor 10.0.0.1 peer-group UP
 neighbor 10.0.0.2 peer-group UP
 neighbor 10.0.0.2 timers 10 30
 neighbor 10.0.0.3 remote-as 65002
`)}, fact.Location{File: "frr.conf", Node: "r"})
	type want struct {
		peer string
		hold time.Duration
		bfd  bool
		line int
	}
	var got []want
	for _, s := range sessions(f) {
		got = append(got, want{s.peer, s.hold, s.bfd, s.at.Line})
		if s.stale != defaultStale {
			t.Errorf("%s: stale for %s", s.peer, s.stale)
		}
	}
	wants := []want{
		{"10.0.0.1", 9 * time.Second, true, 7},
		{"10.0.0.2", 30 * time.Second, true, 8},
		{"10.0.0.3", frrHold, false, 10},
	}
	if len(got) != len(wants) {
		t.Fatalf("%v, want %v", got, wants)
	}
	for i, w := range wants {
		if got[i] != w {
			t.Errorf("%v, want %v", got[i], w)
		}
	}
}

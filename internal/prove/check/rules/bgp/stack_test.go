package bgp

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// The window of each session, by the timers of BFD wherever FRR has them.
func TestStackOfFRR(t *testing.T) {
	f := &fact.Facts{}
	f.Files.Add(&fact.File{Node: "r", Path: "/etc/frr/frr.conf", Data: []byte(`router bgp 65000
 bgp graceful-restart
 neighbor 10.0.0.1 remote-as 65001
 neighbor 10.0.0.1 bfd
 neighbor 10.0.0.2 remote-as 65001
 neighbor 10.0.0.2 bfd profile slow
 neighbor 10.0.0.3 remote-as 65001
 neighbor 10.0.0.3 bfd
 neighbor 10.0.0.4 remote-as 65001
 neighbor 10.0.0.4 timers 3 9
 neighbor 10.0.0.5 remote-as 65001
 neighbor 10.0.0.5 bfd profile nowhere
bfd
 profile slow
  detect-multiplier 5
  receive-interval 500
 !
 peer 10.0.0.3
  transmit-interval 100
  receive-interval 200
 !
`)}, fact.Location{File: "frr.conf", Node: "r"})
	wants := []time.Duration{900 * time.Millisecond, 2500 * time.Millisecond, 600 * time.Millisecond, 129 * time.Second}
	got := Stack(f)
	if len(got) != len(wants) {
		t.Fatalf("%+v", got)
	}
	for i, w := range wants {
		if m := got[i].Window().Max; m != w {
			t.Errorf("%s: %s, want %s: %+v", got[i].Client, m, w, got[i].Detectors)
		}
	}
}

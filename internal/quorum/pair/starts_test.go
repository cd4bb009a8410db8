package pair

import (
	"testing"
	"time"
)

// TestStartsAreSpaced: an etcd that ends at once is not started in a busy loop, and
// one that ran well is started at once.
func TestStartsAreSpaced(t *testing.T) {
	var s starts
	now := time.Second
	if s.wait(now) != 0 {
		t.Fatal("the first start waits")
	}
	s.note(now)
	if s.wait(now) != 0 {
		t.Fatal("the second start waits")
	}
	var pauses []time.Duration
	for range 8 {
		now += s.wait(now) + time.Millisecond
		s.note(now)
		pauses = append(pauses, s.wait(now))
	}
	if pauses[0] != leastPause || pauses[1] != 2*leastPause || pauses[7] != mostPause {
		t.Fatalf("pauses %v", pauses)
	}
	now += calmAfter
	s.note(now)
	if s.wait(now) != 0 {
		t.Fatal("a run of calm forgot nothing")
	}
	s.note(now)
	s.afresh()
	if s.wait(now) != 0 {
		t.Fatal("another directory waits for the one before")
	}
}

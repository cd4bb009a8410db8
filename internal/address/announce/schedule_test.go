package announce

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

func newSchedule(p Pace) *Schedule { return NewSchedule(p, rand.New(rand.NewPCG(1, 2))) }

// run ticks whenever something is due, up to and including the end, and
// returns the times of the announcements.
func run(s *Schedule, end time.Duration) []time.Duration {
	var sent []time.Duration
	for {
		at, ok := s.Next()
		if !ok || at > end {
			return sent
		}
		if s.Tick(at) {
			sent = append(sent, at)
		}
	}
}

func TestBurstThenRefresh(t *testing.T) {
	s := newSchedule(Pace{})
	if _, ok := s.Next(); ok || s.Tick(0) {
		t.Error("announces what is not held")
	}
	s.Take(10 * time.Second)
	sent := run(s, 10*time.Minute)
	first := []time.Duration{10000 * ms, 10020 * ms, 10100 * ms, 10500 * ms, 12000 * ms, 15000 * ms}
	if !slices.Equal(sent[:6], first) {
		t.Errorf("burst at %v, want %v", sent[:6], first)
	}
	for i := 6; i < len(sent); i++ {
		if gap := sent[i] - sent[i-1]; gap < 57*time.Second || gap > 63*time.Second {
			t.Errorf("refresh %v after the last announcement", gap)
		}
	}
	if n := len(sent); n < 14 || n > 17 {
		t.Errorf("%d announcements in ten minutes", n)
	}
	s.Drop()
	if _, ok := s.Next(); ok || s.Tick(time.Hour) {
		t.Error("announces what was given up")
	}
}

func TestRivalIsAnsweredWithinTheFloor(t *testing.T) {
	s := newSchedule(Pace{Burst: []time.Duration{0, 400 * ms}, Floor: 200 * ms, Refresh: -1})
	s.Take(0)
	sent := run(s, 50*ms)
	for range 10 {
		s.Again(50 * ms)
	}
	sent = append(sent, run(s, 500*ms)...)
	s.Again(500 * ms)
	sent = append(sent, run(s, time.Hour)...)
	want := []time.Duration{0, 200 * ms, 500 * ms, 900 * ms}
	if !slices.Equal(sent, want) {
		t.Errorf("announced at %v, want %v", sent, want)
	}
	s.Again(time.Hour)
	if sent = run(s, 2*time.Hour); !slices.Equal(sent, []time.Duration{time.Hour, time.Hour + 400*ms}) {
		t.Errorf("after a long calm: %v", sent)
	}
}

func TestAgainWhileIdleWaitsForTheFloor(t *testing.T) {
	s := newSchedule(Pace{Burst: []time.Duration{0}, Floor: 200 * ms, Refresh: -1})
	s.Take(0)
	run(s, 0)
	if at, ok := s.Next(); ok {
		t.Fatalf("due at %v, although refresh is off", at)
	}
	s.Again(1 * ms)
	if sent := run(s, time.Hour); !slices.Equal(sent, []time.Duration{200 * ms}) {
		t.Errorf("announced at %v", sent)
	}
}

func TestLateTickSendsOnce(t *testing.T) {
	s := newSchedule(Pace{})
	s.Take(0)
	if !s.Tick(1 * time.Second) {
		t.Fatal("nothing sent")
	}
	if s.Tick(1 * time.Second) {
		t.Error("what was missed is sent one by one")
	}
	if at, _ := s.Next(); at != 2*time.Second {
		t.Errorf("next at %v, want the one of the burst that is still ahead", at)
	}
}

// Whatever happens, a claim heard while the address is held is followed by an
// announcement within the floor, and bursts never begin closer than the floor.
func TestScheduleUnderRandomEvents(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		pace := Pace{Floor: time.Duration(1+random.IntN(300)) * ms, Refresh: time.Duration(1+random.IntN(2000)) * ms}
		s := NewSchedule(pace, random)
		var now, heard time.Duration
		waiting := false
		for range 200 {
			now += time.Duration(random.IntN(50)) * ms
			switch random.IntN(20) {
			case 0:
				s.Take(now)
			case 1:
				s.Drop()
				waiting = false
			case 2, 3, 4:
				if s.Again(now); s.held && !waiting {
					heard, waiting = now, true
				}
			}
			began := s.began
			for {
				at, ok := s.Next()
				if !ok || at > now {
					break
				}
				if !s.Tick(now) {
					t.Fatalf("seed %d: due at %v, not sent at %v", seed, at, now)
				}
				waiting = false
			}
			if s.began != began && s.began-began < pace.Floor {
				t.Fatalf("seed %d: bursts at %v and %v", seed, began, s.began)
			}
			if waiting && now-heard > pace.Floor {
				t.Fatalf("seed %d: a claim at %v is not answered at %v", seed, heard, now)
			}
		}
	}
}

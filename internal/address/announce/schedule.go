package announce

import (
	"math/rand/v2"
	"time"
)

// Pace says how often a held address is announced. The zero value of a field
// takes its default.
type Pace struct {
	// Burst are the times after a takeover at which it is announced, ascending,
	// the first being 0. Default: 0, 20 ms, 100 ms, 500 ms, 2 s, 5 s. The early
	// ones make up for a lost frame, the late ones for a switch port that has
	// come up and does not forward yet.
	Burst []time.Duration
	// Refresh is the time between announcements after the burst, spread by a
	// tenth. Default 60 s; negative means none. It mends what nobody noticed,
	// such as a neighbour that slept through the takeover.
	Refresh time.Duration
	// Floor is the least time between the beginnings of two bursts, default
	// 200 ms: two holders that both believe in their right must not flood the
	// segment while the election settles it.
	Floor time.Duration
}

var defaultBurst = []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 5 * time.Second}

func (p Pace) withDefaults() Pace {
	if len(p.Burst) == 0 {
		p.Burst = defaultBurst
	}
	if p.Refresh == 0 {
		p.Refresh = time.Minute
	}
	if p.Floor <= 0 {
		p.Floor = 200 * time.Millisecond
	}
	return p
}

// Schedule decides when one held address is announced. It is pure: times are
// durations since any origin of one monotonic clock. The zero Schedule is not
// usable; make one with NewSchedule.
type Schedule struct {
	pace   Pace
	random *rand.Rand
	held   bool
	began  time.Duration // of the burst; meaningful while held
	next   int           // index into Burst; len(Burst) means the refresh is next
	due    time.Duration // of the next announcement
	idle   bool          // nothing is due any more: Refresh is off
	again  bool          // another burst is wanted as soon as the floor allows
}

// NewSchedule returns the schedule of an address that is not held.
func NewSchedule(p Pace, random *rand.Rand) *Schedule {
	return &Schedule{pace: p.withDefaults(), random: random}
}

// Take begins to announce, the first time at now.
func (s *Schedule) Take(now time.Duration) {
	s.held = true
	s.begin(now)
}

// Drop ends it. Nothing is due until the next Take.
func (s *Schedule) Drop() { s.held = false }

// Again asks for another burst: a rival claims the address, an inferior advert
// was heard, or the carrier has come up. It begins at now, or when Floor has
// passed since the last burst began; several within that time make one.
func (s *Schedule) Again(now time.Duration) {
	switch {
	case !s.held:
	case now-s.began >= s.pace.Floor:
		s.begin(now)
	default:
		s.again = true
	}
}

func (s *Schedule) begin(now time.Duration) {
	s.began, s.next, s.due, s.idle, s.again = now, 0, now, false, false
}

// Next returns when Tick has something to do; false while there is nothing.
func (s *Schedule) Next() (at time.Duration, ok bool) {
	if !s.held {
		return 0, false
	}
	if floor := s.began + s.pace.Floor; s.again && (s.idle || floor < s.due) {
		return floor, true
	}
	return s.due, !s.idle
}

// Tick reports whether the address has to be announced now. However late it is
// called, what was missed is made up for by one announcement.
func (s *Schedule) Tick(now time.Duration) bool {
	if at, ok := s.Next(); !ok || now < at {
		return false
	}
	if s.again && now-s.began >= s.pace.Floor {
		s.begin(now)
	}
	for s.next < len(s.pace.Burst) && s.began+s.pace.Burst[s.next] <= now {
		s.next++
	}
	switch {
	case s.next < len(s.pace.Burst):
		s.due = s.began + s.pace.Burst[s.next]
	case s.pace.Refresh < 0:
		s.idle = true
	default:
		s.due = now + s.spread(s.pace.Refresh)
	}
	return true
}

// spread keeps the refreshes of many addresses, taken over at once, apart.
func (s *Schedule) spread(d time.Duration) time.Duration {
	return d - d/20 + time.Duration(s.random.Int64N(int64(d/10)+1))
}

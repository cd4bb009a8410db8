package plan

import "time"

// stream is the yardstick of a watch: what certainly is renewed, arriving.
type stream struct {
	begun       bool
	since, last time.Duration
}

func (s *stream) arrive(now, gap time.Duration) {
	if !s.begun || now-s.last > gap {
		s.since = now
	}
	s.begun, s.last = true, now
}

// unbroken is for how long the watch has been seen to work, until now.
func (s *stream) unbroken(now, gap time.Duration) time.Duration {
	if !s.begun || now-s.last > gap {
		return 0
	}
	return now - s.since
}

// sign is one Lease as it was last seen to change. It stays when the Lease is
// deleted: a deletion is no renewal.
type sign struct {
	role               Role
	name, token        string
	node, identity     string // of agents
	changed            time.Duration
	deleted, mentioned bool
}

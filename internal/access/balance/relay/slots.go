package relay

// slots number what a loop's epoll watches. The kernel hands the number back
// with each event, and the generation tells an event of a closed descriptor
// from one of its successor.
type slots struct {
	table []slot
	free  []uint32
}

type slot struct {
	generation uint32
	conn       *conn
	acceptor   *acceptor
}

// take returns a free slot and its generation.
func (s *slots) take() (number, generation uint32) {
	if n := len(s.free); n > 0 {
		number = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		number = uint32(len(s.table))
		s.table = append(s.table, slot{})
	}
	return number, s.table[number].generation
}

// put frees a slot; events under way for it find nobody.
func (s *slots) put(number uint32) {
	s.table[number] = slot{generation: s.table[number].generation + 1}
	s.free = append(s.free, number)
}

// get returns the slot, or nil when it was freed since.
func (s *slots) get(number, generation uint32) *slot {
	if number >= uint32(len(s.table)) || s.table[number].generation != generation {
		return nil
	}
	return &s.table[number]
}

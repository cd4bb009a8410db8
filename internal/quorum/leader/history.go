package leader

import "time"

// history remembers the own committed index once a second, so that a row of
// some age is compared with what the leader had then. Without it a follower
// under 2,000 writes a second would look 10,000 entries behind in a row of
// 5 s, and never be a target.
type history struct {
	marks [10]mark // a second apart: longer than a row stays fresh
	next  int
}

type mark struct {
	at    time.Duration
	index uint64
	set   bool
}

func (h history) add(now time.Duration, index uint64) history {
	last := h.marks[(h.next+len(h.marks)-1)%len(h.marks)]
	if last.set && now-last.at < time.Second {
		return h
	}
	h.marks[h.next] = mark{now, index, true}
	h.next = (h.next + 1) % len(h.marks)
	return h
}

// at is the own index no earlier than the moment asked for: the oldest mark
// from then on, or current when there is none.
func (h history) at(moment time.Duration, current uint64) uint64 {
	for i := range h.marks {
		m := h.marks[(h.next+i)%len(h.marks)]
		if m.set && m.at >= moment {
			return min(m.index, current)
		}
	}
	return current
}

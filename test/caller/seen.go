package caller

import (
	"slices"
	"time"
)

// Seen is what the client met with since a moment.
type Seen struct {
	// Gap is the longest time in which every question stayed without an answer,
	// less what the client itself stood still.
	Gap time.Duration
	// Lost counts the questions without an answer, Asked all.
	Lost, Asked int
	// Both is the longest time in which two machines answered ARP.
	Both time.Duration
	// By are the machines that answered, in order of their first answer.
	By []int
	// Moves are the changes of the machine that answers; the first is who
	// answered first.
	Moves []Move
	// Stood is the longest time in which the client asked nothing.
	Stood time.Duration
}

// Move is the first question that another machine answered.
type Move struct {
	// After is when it was asked, from the moment of Since.
	After time.Duration
	To    int
}

// Since judges what was seen from a moment on. It waits until what was asked by
// now has had the time to be answered.
func (c *Caller) Since(t time.Time) Seen {
	end := time.Now()
	<-time.After(tail)
	c.mu.Lock()
	defer c.mu.Unlock()
	from, _ := slices.BinarySearchFunc(c.asked, t, func(q question, t time.Time) int { return q.at.Compare(t) })
	to, _ := slices.BinarySearchFunc(c.asked, end, func(q question, t time.Time) int { return q.at.Compare(t) })
	s := judge(c.asked[from:to], t)
	s.Both = overlap(c.replies, t)
	return s
}

// stride is the longest step from one question to the next that says something
// about the address, and not about a machine on which nobody came to run.
const stride = 20 * time.Millisecond

// judge goes through questions in order.
func judge(asked []question, t time.Time) Seen {
	s := Seen{Asked: len(asked)}
	var row time.Duration // of lost ones
	for i, q := range asked {
		step := pace
		if i > 0 {
			step = q.at.Sub(asked[i-1].at)
			s.Stood = max(s.Stood, step)
		}
		switch {
		case q.by == 0 && row == 0:
			s.Lost++
			row = pace // until the next is asked
			s.Gap = max(s.Gap, row)
			continue
		case q.by == 0:
			s.Lost++
			row += min(step, stride)
			s.Gap = max(s.Gap, row)
			continue
		case row > 0:
			s.Gap = max(s.Gap, row-pace+min(step, stride))
			row = 0
		}
		if n := len(s.Moves); n == 0 || s.Moves[n-1].To != q.by {
			s.Moves = append(s.Moves, Move{q.at.Sub(t), q.by})
		}
		if !slices.Contains(s.By, q.by) {
			s.By = append(s.By, q.by)
		}
	}
	return s
}

// spell is a time in which a machine answered without a break.
type spell struct {
	by         int
	begin, end time.Time
}

// silence ends a spell.
const silence = 60 * time.Millisecond

// overlap is the longest time in which two machines both answered.
func overlap(all []reply, since time.Time) (longest time.Duration) {
	var spells []spell
	latest := map[int]int{} // the last spell of each
	for _, a := range all {
		if i, ok := latest[a.by]; ok && a.at.Sub(spells[i].end) < silence {
			spells[i].end = a.at
			continue
		}
		latest[a.by] = len(spells)
		spells = append(spells, spell{a.by, a.at, a.at})
	}
	for i, x := range spells {
		for _, y := range spells[i+1:] {
			if x.by == y.by || x.end.Before(since) || y.end.Before(since) {
				continue
			}
			begin, end := x.begin, x.end
			if y.begin.After(begin) {
				begin = y.begin
			}
			if y.end.Before(end) {
				end = y.end
			}
			longest = max(longest, end.Sub(begin))
		}
	}
	return longest
}

package probe

import "time"

// Gap is a run of failed samples of one path: an outage, bracketed. All times
// are send times, because the client's need for an answer began then.
type Gap struct {
	// LastGood is zero when the path never worked before, FirstGood while it
	// does not work again.
	LastGood  time.Time
	FirstBad  time.Time
	LastBad   time.Time
	FirstGood time.Time
	// Errors counts the failures by class; First is the text of the first.
	Errors map[Class]int
	First  string
	// Open says that the samples ended within the gap.
	Open bool
}

// From is the start of the upper bound: the last good send, or the first send.
func (g Gap) From() time.Time {
	if g.LastGood.IsZero() {
		return g.FirstBad
	}
	return g.LastGood
}

// To is the end of the upper bound: the first good send, or the last send.
func (g Gap) To() time.Time {
	if g.Open {
		return g.LastBad
	}
	return g.FirstGood
}

// Lower is what the outage lasted at least: first failed send to last failed
// send. One failed sample has a lower bound of 0: it may have been a blink.
func (g Gap) Lower() time.Duration { return g.LastBad.Sub(g.FirstBad) }

// Upper is what the outage lasted at most: last good send to first good send.
// Of an open gap it is what is known so far.
func (g Gap) Upper() time.Duration { return g.To().Sub(g.From()) }

// Failed is the number of failed samples in the gap.
func (g Gap) Failed() int {
	n := 0
	for _, c := range g.Errors {
		n += c
	}
	return n
}

// gapper builds gaps from the samples of one path in the order of Seq.
type gapper struct {
	lastGood time.Time
	open     *Gap
}

// add takes the next sample and returns the gap that it closed, or nil.
func (b *gapper) add(s Sample) *Gap {
	if s.OK {
		closed := b.open
		if closed != nil {
			closed.FirstGood, closed.Open = s.Sent, false
			b.open = nil
		}
		b.lastGood = s.Sent
		return closed
	}
	if b.open == nil {
		b.open = &Gap{LastGood: b.lastGood, FirstBad: s.Sent, Errors: map[Class]int{}, First: s.Error, Open: true}
	}
	b.open.LastBad = s.Sent
	b.open.Errors[s.Class]++
	return nil
}

// Gaps returns the outages in the samples of one path, which must be in the
// order of Seq. Consecutive failures are one gap, whatever their classes.
func Gaps(samples []Sample) []Gap {
	var gaps []Gap
	var b gapper
	for _, s := range samples {
		if g := b.add(s); g != nil {
			gaps = append(gaps, *g)
		}
	}
	if b.open != nil {
		gaps = append(gaps, *b.open)
	}
	return gaps
}

// StableFrom returns the send time of the first sample, sent at or after the
// given time, that begins n good samples in a row. False when there is none
// yet: fewer than n good ones at the end do not count.
func StableFrom(samples []Sample, after time.Time, n int) (time.Time, bool) {
	var start time.Time
	run := 0
	for _, s := range samples {
		switch {
		case s.Sent.Before(after):
		case !s.OK:
			run = 0
		default:
			if run == 0 {
				start = s.Sent
			}
			if run++; run >= n {
				return start, true
			}
		}
	}
	return time.Time{}, false
}

// ByPath sorts samples into their paths, keeping their order.
func ByPath(samples []Sample) map[string][]Sample {
	paths := map[string][]Sample{}
	for _, s := range samples {
		paths[s.Path] = append(paths[s.Path], s)
	}
	return paths
}

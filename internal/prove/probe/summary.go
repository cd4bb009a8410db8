package probe

import (
	"math"
	"time"
)

// maxGaps bounds the gaps that a Tally keeps; the totals go on beyond it.
const maxGaps = 1000

// Summary is what the samples of one path say.
type Summary struct {
	Path    string
	Samples int
	Failed  int
	// Slow counts good samples that took longer than the slow threshold.
	Slow int
	// Lost counts ticks without a sample (gaps in Seq): the prober's own fault.
	Lost        int
	First, Last time.Time
	// Gaps are the outages in order, at most 1000 of them; Outages counts all.
	Gaps    []Gap
	Outages int
	// Longest is the gap with the largest lower bound, nil without outages.
	Longest *Gap
	// TotalLower and TotalUpper add up the bounds of all gaps.
	TotalLower, TotalUpper time.Duration
	// Recovery is the time from the first failed send of the last gap to the
	// first of the good samples in a row that make a stable recovery; nil
	// without outages, and while there is no stable recovery.
	Recovery *time.Duration
	// Latency is over good samples only: failures are in the gaps.
	Latency Quantiles
	// Lag is over all samples.
	Lag    Quantiles
	Errors map[Class]int
	// Hops are the next hops of a route as found at first and after each change,
	// the newest 1000; HopChanges counts all, FewestHops is the least number.
	Hops       []Hops
	HopChanges int
	FewestHops int
}

// Quantiles of durations, within 1 % (Max exactly).
type Quantiles struct{ P50, P90, P99, Max time.Duration }

// Tally builds a Summary sample by sample in bounded memory.
type Tally struct {
	slow   time.Duration
	stable int
	sum    Summary
	gaps   gapper
	next   uint64
	good   int       // good samples in a row
	since  time.Time // of the first of them
	// latency and lag
	latency, lag histogram
	last         Sample
}

// NewTally returns a Tally for a path. Zero values mean the defaults.
func NewTally(path string, slow time.Duration, stable int) *Tally {
	return &Tally{
		slow: or(slow, DefaultSlow), stable: or(stable, DefaultStable),
		sum: Summary{Path: path, Errors: map[Class]int{}},
	}
}

// Add takes the next sample of the path, in the order of Seq. Of a route it
// says whether its next hops are others than before, and which those were.
func (t *Tally) Add(s Sample) (before *Hops, turned bool) {
	before, turned = t.sum.turn(s)
	t.add(s)
	return before, turned
}

func (t *Tally) add(s Sample) {
	if t.sum.Samples == 0 {
		t.sum.First = s.Sent
	} else if s.Seq > t.next {
		t.sum.Lost += int(s.Seq - t.next)
	}
	t.next = s.Seq + 1
	t.sum.Samples++
	t.sum.Last = s.Sent
	t.last = s
	t.lag.add(s.Lag())
	if g := t.gaps.add(s); g != nil {
		t.sum.count(*g)
	}
	if !s.OK {
		t.sum.Failed++
		t.sum.Errors[s.Class]++
		t.good, t.sum.Recovery = 0, nil
		return
	}
	if s.Latency() > t.slow {
		t.sum.Slow++
	}
	t.latency.add(s.Latency())
	t.recover(s)
}

// recover watches for the good samples in a row after a gap.
func (t *Tally) recover(s Sample) {
	if t.good == 0 {
		t.since = s.Sent
	}
	t.good++
	if t.good == t.stable && t.sum.Outages > 0 {
		took := t.since.Sub(t.sum.Gaps[len(t.sum.Gaps)-1].FirstBad)
		t.sum.Recovery = &took
	}
}

// count adds a gap; beyond maxGaps the oldest makes room.
func (s *Summary) count(g Gap) {
	s.Outages++
	s.TotalLower += g.Lower()
	s.TotalUpper += g.Upper()
	if s.Longest == nil || g.Lower() > s.Longest.Lower() ||
		g.Lower() == s.Longest.Lower() && g.Upper() > s.Longest.Upper() {
		s.Longest = &g
	}
	if len(s.Gaps) == maxGaps {
		s.Gaps = s.Gaps[1:]
	}
	s.Gaps = append(s.Gaps, g)
}

// Last returns the newest sample; its Path is empty before the first.
func (t *Tally) Last() Sample { return t.last }

// Summary returns what the samples so far say; an outage still open is
// counted as it stands.
func (t *Tally) Summary() Summary {
	s := t.sum
	s.Gaps = append([]Gap(nil), t.sum.Gaps...)
	s.Hops = append([]Hops(nil), t.sum.Hops...)
	s.Errors = make(map[Class]int, len(t.sum.Errors))
	for c, n := range t.sum.Errors {
		s.Errors[c] = n
	}
	if t.gaps.open != nil {
		g := *t.gaps.open
		g.Errors = make(map[Class]int, len(g.Errors))
		for c, n := range t.gaps.open.Errors {
			g.Errors[c] = n
		}
		s.count(g)
	}
	s.Latency, s.Lag = t.latency.quantiles(), t.lag.quantiles()
	return s
}

// Summarise returns the summary of the samples of one path, which must be in
// the order of Seq, with the default thresholds.
func Summarise(path string, samples []Sample) Summary {
	t := NewTally(path, 0, 0)
	for _, s := range samples {
		t.Add(s)
	}
	return t.Summary()
}

// step is the growth from one bucket of a histogram to the next: 2 %, so that
// the middle of a bucket is within 1 % of all its values.
const step = 1.02

var logStep = math.Log(step)

// histogram counts durations in logarithmic buckets from 1 µs; some 1600
// buckets reach a year.
type histogram struct {
	counts []int
	total  int
	max    time.Duration
}

func (h *histogram) add(d time.Duration) {
	h.max = max(h.max, d)
	h.total++
	b := 0
	if us := float64(d) / float64(time.Microsecond); us > 1 {
		b = 1 + int(math.Log(us)/logStep)
	}
	for len(h.counts) <= b {
		h.counts = append(h.counts, 0)
	}
	h.counts[b]++
}

func (h *histogram) quantiles() Quantiles {
	return Quantiles{h.quantile(0.50), h.quantile(0.90), h.quantile(0.99), h.max}
}

// quantile returns the middle of the bucket in which the value of that rank
// lies (nearest rank), never above the maximum.
func (h *histogram) quantile(q float64) time.Duration {
	rank := int(math.Ceil(q * float64(h.total)))
	for b, n := range h.counts {
		if rank -= n; rank <= 0 && h.total > 0 {
			if b == 0 {
				return 0
			}
			middle := math.Pow(step, float64(b)-0.5) * float64(time.Microsecond)
			return min(time.Duration(middle), h.max)
		}
	}
	return 0
}

package probe

import (
	"fmt"
	"sync"
	"time"
)

// stripLength is how many outcomes a row of the live view can show.
const stripLength = 60

// Board keeps what is known of every path while the prober runs. It may be
// written and read at once.
type Board struct {
	mu      sync.Mutex
	rows    []*row
	byPath  map[string]*row
	started time.Time
}

// row is one path on the board.
type row struct {
	path  *Path
	tally *Tally
	strip [stripLength]byte // ring of outcomes; see mark
	drawn int               // how many outcomes went into the strip
	open  *Gap              // the outage that the path is in
}

// NewBoard returns an empty board for the paths.
func NewBoard(paths []Path, stable int) *Board {
	b := &Board{byPath: map[string]*row{}, started: time.Now()}
	for i := range paths {
		p := &paths[i]
		r := &row{path: p, tally: NewTally(p.Name, p.Slow, stable)}
		b.rows = append(b.rows, r)
		b.byPath[p.Name] = r
	}
	return b
}

// change is what a sample changed: the first failure of an outage, or the
// first good sample after one, or other next hops of a route.
type change struct {
	path *Path
	down *Sample
	up   *Gap
	// hops is the news of a route, before what it replaces, nil at first.
	hops   *Hops
	before *Hops
}

// Add takes a sample; the result is nil unless the state of its path changed.
func (b *Board) Add(s Sample) *change {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.byPath[s.Path]
	if r == nil {
		return nil
	}
	before, turned := r.tally.Add(s)
	r.strip[r.drawn%stripLength] = mark(s, r.path.Slow)
	r.drawn++
	was := r.open
	r.open = r.tally.gaps.open
	c := change{path: r.path}
	switch {
	case was == nil && r.open != nil:
		c.down = &s
	case was != nil && r.open == nil:
		c.up = was
	case !turned:
		return nil
	}
	if turned {
		c.hops, c.before = &Hops{s.Done, s.Hops}, before
	}
	return &c
}

// Outcomes in a strip.
const (
	markOK     = 'o'
	markSlow   = 's'
	markFailed = 'x'
)

func mark(s Sample, slow time.Duration) byte {
	switch {
	case !s.OK:
		return markFailed
	case s.Latency() > slow:
		return markSlow
	}
	return markOK
}

// outcomes returns the newest marks of the row, oldest first, at most n.
func (r *row) outcomes(n int) []byte {
	n = min(n, r.drawn, stripLength)
	marks := make([]byte, 0, n)
	for i := r.drawn - n; i < r.drawn; i++ {
		marks = append(marks, r.strip[i%stripLength])
	}
	return marks
}

// Summaries returns a summary per path, in the order of the paths.
func (b *Board) Summaries() []Summary {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Summary, 0, len(b.rows))
	for _, r := range b.rows {
		all = append(all, r.tally.Summary())
	}
	return all
}

// Starved says, in words, why the prober itself cannot be trusted; "" when it
// can. A path that fails says nothing while the prober's own loopback fails or
// its ticks are late.
func (b *Board) Starved() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.rows {
		s := r.tally.Summary()
		switch {
		case r.path.Control && s.Failed > 0:
			return fmt.Sprintf("the path to the prober's own loopback failed %d of %d times (%s)", s.Failed, s.Samples, s.Gaps[0].First)
		case s.Lag.Max > LagLimit:
			return fmt.Sprintf("a sample of %s was sent %v late (limit %v)", s.Path, s.Lag.Max.Round(time.Millisecond), LagLimit)
		case s.Lost > 0:
			return fmt.Sprintf("%s of %s lost", plural(s.Lost, "tick"), s.Path)
		}
	}
	return ""
}

package probe

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// refresh is how often the live view is drawn: often enough to see a second's
// outage begin, rare enough to read.
const refresh = 200 * time.Millisecond

// live draws the board over and over on a terminal.
type live struct {
	out      *os.File
	board    *Board
	duration time.Duration
	height   int // lines drawn last time
	stop     chan struct{}
	stopped  sync.WaitGroup
}

func newLive(out *os.File, board *Board, duration time.Duration) *live {
	l := &live{out: out, board: board, duration: duration, stop: make(chan struct{})}
	l.stopped.Go(l.loop)
	return l
}

func (l *live) show(*change, Sample) {}

// loop redraws until close, and clears the last picture: the summary table
// comes in its place.
func (l *live) loop() {
	ticker := time.NewTicker(refresh)
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			_, _ = l.out.WriteString(l.back())
			return
		case <-ticker.C:
			l.draw()
		}
	}
}

func (l *live) close() {
	close(l.stop)
	l.stopped.Wait()
}

// back moves to the first line of the last picture and clears from there.
func (l *live) back() string {
	if l.height == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", l.height)
}

func (l *live) draw() {
	width, height, err := term.GetSize(int(l.out.Fd()))
	if err != nil || width <= 0 {
		width, height = 80, 24
	}
	picture := l.board.render(time.Since(l.board.started), l.duration, width, height-1)
	_, _ = l.out.WriteString(l.back() + strings.Join(picture, "\n") + "\n")
	l.height = len(picture)
}

// render draws the board in lines that fit the terminal: progress first, then
// a row per path.
func (b *Board) render(elapsed, duration time.Duration, width, height int) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := 0
	samples, failures := 0, 0
	var lag time.Duration
	for _, r := range b.rows {
		name = max(name, len(r.path.Name))
		samples += r.tally.sum.Samples
		failures += r.tally.sum.Failed
		lag = max(lag, r.tally.lag.max)
	}
	lines := []string{clip(progressLine(elapsed, duration)+fmt.Sprintf(" · %s · %d failed · lag %s", plural(samples, "sample"), failures, short(lag)), width)}
	for i, r := range b.rows {
		if len(lines) == height-1 && i < len(b.rows)-1 {
			return append(lines, clip(fmt.Sprintf("… and %d more paths", len(b.rows)-i), width))
		}
		lines = append(lines, r.render(min(name, width/3), width))
	}
	return lines
}

// progressLine shows a bar when the end is known.
func progressLine(elapsed, duration time.Duration) string {
	if duration <= 0 {
		return "probing " + elapsed.Round(time.Second).String()
	}
	const cells = 20
	full := min(cells, int(cells*elapsed/duration))
	return fmt.Sprintf("probing [%s%s] %s of %s", strings.Repeat("#", full), strings.Repeat(".", cells-full),
		elapsed.Round(time.Second), duration)
}

// render draws the row: name, state, last latency, outages, strip.
func (r *row) render(name, width int) string {
	last := r.tally.last
	state := "ok"
	switch {
	case last.Path == "":
		state = "waiting"
	case r.open != nil:
		state = string(last.Class) + " for " + short(last.Done.Sub(r.open.FirstBad))
	case last.Hops != nil:
		state = plural(len(last.Hops), "next hop")
	}
	text := fmt.Sprintf("%-*s  %-20s %8s  %-34s ", name, clip(r.path.Name, name), clip(state, 20), short(last.Latency()), clip(r.outages(), 34))
	strip := string(r.outcomes(max(0, width-len([]rune(text))-1)))
	return clip(text+strings.NewReplacer(string(markOK), "▁", string(markSlow), "▄", string(markFailed), "█").Replace(strip), width)
}

// outages says how many there were, an open one included.
func (r *row) outages() string {
	n, longest := r.tally.sum.Outages, r.tally.sum.Longest
	if r.open != nil {
		n++
		if longest == nil || r.open.Lower() > longest.Lower() {
			longest = r.open
		}
	}
	if n == 0 {
		return "no outage"
	}
	return fmt.Sprintf("%s, longest %s", plural(n, "outage"), bounds(*longest))
}

// clip cuts s to n columns.
func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:max(0, n-1)]) + "…"
	}
	return s
}

// tallyWords is "refused 3, timeout 12", by name.
func tallyWords(errors map[Class]int) string {
	var words []string
	for _, class := range slices.Sorted(maps.Keys(errors)) {
		words = append(words, fmt.Sprintf("%s %d", class, errors[class]))
	}
	return strings.Join(words, ", ")
}

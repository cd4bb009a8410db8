package drill

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/matrix"
	"github.com/holdfast-ha/holdfast/internal/prove/report"
)

// phases hears the progress of one run, which is text for people, line by line.
type phases struct {
	board Board
	run   matrix.Run
}

func (p *phases) Write(b []byte) (int, error) {
	line := strings.TrimSpace(string(b))
	p.board.Phase(p.run, line[strings.LastIndex(line, ": ")+1:])
	return len(b), nil
}

// board is a Board that writes to people: a line per drill, and below it, on a terminal, one
// per run in progress.
type board struct {
	out   io.Writer
	live  bool
	begun time.Time
	total time.Duration // expected

	mu      sync.Mutex
	running []progressOf
	drawn   int
	stop    chan struct{}
	gone    sync.WaitGroup
}

type progressOf struct {
	run   matrix.Run
	phase string
	since time.Time
}

// newBoard begins a board; close it.
func newBoard(out io.Writer, total time.Duration) *board {
	f, ok := out.(interface{ Fd() uintptr })
	b := &board{out: out, live: ok && term.IsTerminal(int(f.Fd())), begun: time.Now(), total: total, stop: make(chan struct{})}
	if b.live {
		b.gone.Go(b.tick)
	}
	return b
}

// tick redraws twice a second.
func (b *board) tick() {
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-again.C:
			b.mu.Lock()
			b.draw()
			b.mu.Unlock()
		}
	}
}

// close takes the lines of runs away.
func (b *board) close() {
	close(b.stop)
	b.gone.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wipe()
}

func (b *board) Phase(run matrix.Run, phase string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	phase = strings.TrimSpace(phase)
	i := slices.IndexFunc(b.running, func(p progressOf) bool { return p.run == run })
	switch {
	case phase == "" && i >= 0:
		b.running = slices.Delete(b.running, i, i+1)
	case phase == "":
	case i < 0:
		b.running = append(b.running, progressOf{run, phase, time.Now()})
	case b.running[i].phase != phase:
		b.running[i].phase, b.running[i].since = phase, time.Now()
	}
	b.draw()
}

func (b *board) Drilled(r *report.Report, done, of int) {
	line := fmt.Sprintf("%-13s %s (%d of %d)", strings.ToLower(r.Verdict.Words()), r.Scenario, done, of)
	if r.Verdict != report.Pass && len(r.Reasons) > 0 {
		line += ": " + r.Reasons[0]
	}
	b.Say(line)
}

func (b *board) Say(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wipe()
	_, _ = fmt.Fprintln(b.out, strings.Map(printable, line))
	b.draw()
}

// printable keeps what systems under test say from moving the cursor.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

// wipe removes what draw wrote.
func (b *board) wipe() {
	if b.drawn > 0 {
		_, _ = fmt.Fprintf(b.out, "\x1b[%dA\x1b[J", b.drawn)
		b.drawn = 0
	}
}

func (b *board) draw() {
	if !b.live {
		return
	}
	b.wipe()
	for _, p := range b.running {
		_, _ = fmt.Fprintf(b.out, "  %-52.52s %-14.14s %3d s\n", p.run, p.phase, int(time.Since(p.since)/time.Second))
		b.drawn++
	}
	if left := b.total - time.Since(b.begun); left > 0 {
		_, _ = fmt.Fprintf(b.out, "  about %d min left\n", int((left+time.Minute-1)/time.Minute))
		b.drawn++
	}
}

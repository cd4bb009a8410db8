package drill

import (
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/term"
)

// progress tells a person where a drill is: one line that counts down on a
// terminal, one plain line per phase elsewhere.
type progress struct {
	out  io.Writer
	live bool
	// label stands before the phase: "partial-split main, with the agents".
	label string

	mu   sync.Mutex
	stop func()
}

func newProgress(out io.Writer, label string) *progress {
	f, ok := out.(interface{ Fd() uintptr })
	return &progress{out: out, live: ok && term.IsTerminal(int(f.Fd())), label: label}
}

// phase begins a phase; length 0 has no known end.
func (p *progress) phase(name string, length time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
	if !p.live {
		suffix := ""
		if length > 0 {
			suffix = " " + length.String()
		}
		_, _ = fmt.Fprintf(p.out, "%s: %s%s\n", p.label, name, suffix)
		return
	}
	quit, gone := make(chan struct{}), make(chan struct{})
	p.stop = func() { close(quit); <-gone }
	go func() {
		defer close(gone)
		p.count(name, length, quit)
	}()
}

// count redraws the line until quit.
func (p *progress) count(name string, length time.Duration, quit <-chan struct{}) {
	begin := time.Now()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s: %s", p.label, countdown(name, length, time.Since(begin)))
		select {
		case <-quit:
			return
		case <-tick.C:
		}
	}
}

// countdown is the text of a live line: what is left when the length is known,
// else what has passed.
func countdown(name string, length, passed time.Duration) string {
	if length > 0 {
		return fmt.Sprintf("%s, %d s left", name, max(0, int((length-passed+time.Second-1)/time.Second)))
	}
	return fmt.Sprintf("%s, %d s", name, int(passed/time.Second))
}

// done clears the line.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
	if p.live {
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
	}
}

func (p *progress) end() {
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
}

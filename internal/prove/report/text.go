package report

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"unicode/utf8"

	xterm "golang.org/x/term"
)

// Terminal says where a text summary goes.
type Terminal struct {
	// Width in columns, 0 for 80. Lines are cut to it, not below 40.
	Width int
	// Color is for terminals only, see TerminalOf.
	Color bool
}

// TerminalOf describes f: the size of a terminal and whether to colour it, or 80
// plain columns when f is none. NO_COLOR (https://no-color.org) and a dumb
// terminal get no colour.
func TerminalOf(f *os.File) Terminal {
	width, _, err := xterm.GetSize(int(f.Fd()))
	if err != nil {
		return Terminal{}
	}
	return Terminal{Width: width, Color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// Text writes the summary for a terminal: verdict, the two outages side by side as
// bars on one time scale ('#' down, '.' answering), what failed, variants.
func Text(dst io.Writer, r *Report, term Terminal) error {
	if term.Width <= 0 {
		term.Width = 80
	}
	t := &text{Terminal: term}
	t.Width = max(t.Width, 40)
	t.line(t.paint(verdictColor(r.Verdict), strings.ToUpper(r.Verdict.Words())) + "  " + r.heading())
	list := r.sections()
	if r.Verdict != Pass {
		t.reasons(r.Reasons)
	}
	t.line("")
	t.bars(list[0])
	t.misses(list[0])
	t.variants(list)
	_, err := dst.Write(t.buf.Bytes())
	return err
}

type text struct {
	Terminal
	buf bytes.Buffer
}

const (
	colorRed    = "31"
	colorGreen  = "32"
	colorYellow = "33"
	colorDim    = "2"
)

func verdictColor(v Verdict) string {
	switch v {
	case Pass:
		return colorGreen
	case Fail:
		return colorRed
	}
	return colorYellow
}

func (t *text) paint(color, s string) string {
	if !t.Color || s == "" {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

// line writes s, cut to the width. Colour codes take no room.
func (t *text) line(s string) {
	var out strings.Builder
	columns, escape := 0, false
	for _, r := range s {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		default:
			columns++
			if columns > t.Width {
				continue // codes still pass, so that colour ends
			}
			if columns == t.Width && visible(s) > t.Width {
				r = '…'
			}
		}
		out.WriteRune(r)
	}
	t.buf.WriteString(strings.TrimRight(out.String(), " ") + "\n")
}

// visible counts the columns of s without colour codes.
func visible(s string) int {
	n, escape := 0, false
	for _, r := range s {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		default:
			n++
		}
	}
	return n
}

func (t *text) reasons(reasons []string) {
	for i, reason := range reasons {
		if i == maxListed {
			t.line(fmt.Sprintf("  and %d more", len(reasons)-i))
			return
		}
		t.line("  " + clean(reason))
	}
}

// bars draws each run as one line over the time from injection to the end.
func (t *text) bars(s section) {
	runs := s.runs()
	if len(runs) == 0 {
		t.line("  nothing was run")
		return
	}
	_, to := spanMS(runs)
	const figure = 10 // columns of the big figure
	label := 22       // of the heading
	for _, run := range runs {
		label = max(label, utf8.RuneCountInString(run.heading())+3)
	}
	room := max(10, t.Width-label-figure-2)
	for _, run := range runs {
		color := map[string]string{"good": colorGreen, "bad": colorRed, "plain": colorYellow}[run.tone()]
		bar := barOf(run, to, room)
		t.line(fmt.Sprintf("  %-*s%s %s", label-2, lowerFirst(run.heading()), t.paintBar(bar, color), t.paint(color, run.headline())))
		t.line(strings.Repeat(" ", label) + t.paint(colorDim, run.caption()))
		if note := movesNote(run); note != "" {
			t.line(strings.Repeat(" ", label) + t.paint(colorDim, note))
		}
	}
	t.line(strings.Repeat(" ", label) + t.scale(to, room))
	t.line("")
}

// lowerFirst leaves names within a heading as they are written.
func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// barOf shows the required paths together: '#' where one of them did not answer.
func barOf(run *Run, to float64, room int) string {
	bar := []byte(strings.Repeat(".", room))
	for i := range run.Paths {
		p := &run.Paths[i]
		if !p.required() {
			continue
		}
		for _, o := range p.Outages {
			from := int(math.Max(0, o.FromMS) / to * float64(room))
			end := int(math.Ceil(math.Min(o.ToMS, to) / to * float64(room)))
			for k := max(0, min(from, room-1)); k < min(end, room); k++ {
				bar[k] = '#'
			}
		}
	}
	return string(bar)
}

func (t *text) paintBar(bar, color string) string {
	if !t.Color {
		return bar
	}
	var b strings.Builder
	for len(bar) > 0 {
		n := len(bar) - len(strings.TrimLeft(bar, bar[:1]))
		if bar[0] == '#' {
			b.WriteString(t.paint(color, bar[:n]))
		} else {
			b.WriteString(t.paint(colorDim, bar[:n]))
		}
		bar = bar[n:]
	}
	return b.String()
}

func movesNote(run *Run) string {
	if !run.Agents {
		return ""
	}
	note := count(run.Moves, "move")
	if run.TransferMS != nil && run.Moves > 0 {
		note += ", transfer " + span(*run.TransferMS)
	}
	if run.Inflight > 0 {
		note += ", " + fmt.Sprint(run.Inflight) + " in flight hit"
	}
	return note
}

// scale is a line of times under the bars, left-aligned at their columns.
func (t *text) scale(to float64, room int) string {
	step := steps[len(steps)-1]
	for _, v := range steps {
		if v/to*float64(room) >= 8 {
			step = v
			break
		}
	}
	line := []byte(strings.Repeat(" ", room+8))
	for k := 0.0; k*step <= to; k++ {
		at := int(k * step / to * float64(room))
		text := limit(k * step)
		if k == 0 {
			text = "0"
		}
		if at+len(text) <= len(line) {
			copy(line[at:], text)
		}
	}
	return t.paint(colorDim, strings.TrimRight(string(line), " "))
}

// misses lists the judged paths that failed.
func (t *text) misses(s section) {
	run := s.judged()
	if run == nil || run.Verdict == Inconclusive { // its paths prove nothing
		return
	}
	n := 0
	for i := range run.Paths {
		p := &run.Paths[i]
		if p.Verdict != Fail {
			continue
		}
		if n++; n <= maxListed {
			t.line("  " + t.paint(colorRed, "failed") + "  " + clean(p.Name) + "  " + missed(p))
		}
	}
	if n > maxListed {
		t.line(fmt.Sprintf("  and %d more", n-maxListed))
	}
	if n > 0 {
		t.line("")
	}
}

// missed says what a failed path did: its gap, or, where it had none (it only
// stalled), the judge's reason.
func missed(p *Path) string {
	if len(p.Outages) == 0 && p.Reason != "" {
		return clean(p.Reason)
	}
	return gap(p) + orNothing(", ", allowed(p.Expected)) + orNothing(": ", firstError(p))
}

func (t *text) variants(list []section) {
	if len(list) < 2 {
		return
	}
	width := 8
	rows := variantRows(list)
	for _, row := range rows {
		width = max(width, min(utf8.RuneCountInString(row.Name), 24))
	}
	t.line(fmt.Sprintf("  %-*s  %10s  %10s  %5s  verdict", width, "position", "without", "with", "moves"))
	for i, row := range rows {
		t.line(fmt.Sprintf("  %-*s  %10s  %10s  %5s  %s", width, brief(row.Name, width), row.Without, row.With, row.Moves,
			t.paint(verdictColor(row.Verdict), strings.ToLower(row.Verdict.Words()))))
		if i > 0 && row.Verdict != Pass && len(list[i].Reasons) > 0 {
			t.line(strings.Repeat(" ", width+4) + clean(list[i].Reasons[0]))
		}
	}
}

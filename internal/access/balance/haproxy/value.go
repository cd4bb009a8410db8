package haproxy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// maxConns is the largest limit that the balancer's settings take.
const maxConns = 1 << 20

// notes collects what was not carried over.
type notes struct {
	file string
	list []note
}

type note struct {
	number int
	text   string
}

// add notes of line number that what has no equal. Whatever the file's words
// contain, a note is one line that a terminal only prints.
func (n *notes) add(number int, what, format string, args ...any) {
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.TrimSpace(what)+": "+fmt.Sprintf(format, args...))
	n.list = append(n.list, note{number, strings.Join(strings.Fields(text), " ")})
}

// sorted returns "file:line: what: why", each once, in order of the lines.
func (n *notes) sorted() []string {
	slices.SortStableFunc(n.list, func(a, b note) int { return a.number - b.number })
	var all []string
	for _, each := range slices.Compact(n.list) {
		all = append(all, fmt.Sprintf("%s:%d: %s", n.file, each.number, each.text))
	}
	return all
}

// number reads a whole number and keeps it within bounds, with an error that
// says so.
func number(text string, low, high int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return low, fmt.Errorf("%q is not a whole number; %d is taken", clip(text), low)
	}
	if kept := min(max(n, low), high); kept != n {
		return kept, fmt.Errorf("not from %d to %d; %d is taken", low, high, kept)
	}
	return n, nil
}

// units of durations (manual, section 2.5); none means milliseconds.
var units = []struct {
	suffix string
	unit   time.Duration
}{
	{"us", time.Microsecond}, {"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}, {"", time.Millisecond},
}

// duration reads a time.
func duration(text string) (time.Duration, error) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.suffix)
		if !ok || digits == "" {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil {
			break
		}
		// HAProxy's own bound is 2^31 ms, 24.8 days.
		if d := float64(n) * float64(u.unit); d <= math.MaxInt32*float64(time.Millisecond) {
			return time.Duration(n) * u.unit, nil
		}
		return 0, fmt.Errorf("%q is over HAProxy's own bound of 24 days", clip(text))
	}
	return 0, fmt.Errorf("%q is not a time such as 500ms or 2s", clip(text))
}

// within reads a time and keeps it within bounds, with an error that says so.
func within(text string, low, high time.Duration) (time.Duration, error) {
	d, err := duration(text)
	if err != nil {
		return low, fmt.Errorf("%w; %s is taken", err, short(low))
	}
	return bounded(d, low, high)
}

func bounded(d, low, high time.Duration) (time.Duration, error) {
	if kept := min(max(d, low), high); kept != d {
		return kept, fmt.Errorf("not from %s to %s; %s is taken", short(low), short(high), short(kept))
	}
	return d, nil
}

// short writes 1h0m0s as 1h.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

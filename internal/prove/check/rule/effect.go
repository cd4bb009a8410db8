package rule

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// Effect is what a fault does to whom, and for how long.
type Effect struct {
	told   bool
	fault  string
	harm   string
	window scenario.Window
	// forever says that nothing ends it but the fault's own end.
	forever bool
}

// Lasts predicts that after a fault ("losing node a1") a harm ("the API by its
// address does not answer") lasts for a window of the drills' own code.
func Lasts(fault, harm string, w scenario.Window) Effect {
	return Effect{told: true, fault: fault, harm: harm, window: w}
}

// Unending predicts a harm that lasts as long as the fault: no detector covers it.
func Unending(fault, harm string) Effect {
	return Effect{told: true, fault: fault, harm: harm, forever: true}
}

// IsZero says that no effect was predicted.
func (e Effect) IsZero() bool { return !e.told }

// Forever says that no detector ends it.
func (e Effect) Forever() bool { return e.forever }

// Window is the predicted window; zero for one that does not end.
func (e Effect) Window() scenario.Window { return e.window }

// String is the prediction in one sentence.
func (e Effect) String() string {
	switch {
	case !e.told:
		return ""
	case e.forever:
		return fmt.Sprintf("%s: %s, as long as it lasts; no detector ends it", e.fault, e.harm)
	}
	return fmt.Sprintf("%s: %s for %s", e.fault, e.harm, Span(e.window))
}

// Span prints a window for people: "5–25 s", "600–900 ms", "15.4 min".
func Span(w scenario.Window) string {
	from, to := w.Min, w.Max
	unit, name := time.Second, "s"
	switch {
	case to < time.Second:
		unit, name = time.Millisecond, "ms"
	case to >= 10*time.Minute:
		unit, name = time.Minute, "min"
	}
	low, high := rounded(from, unit), rounded(to, unit)
	if low == high {
		return high + " " + name
	}
	return low + "–" + high + " " + name
}

// rounded keeps one decimal, and none where it is zero.
func rounded(d, unit time.Duration) string {
	tenths := (d*10 + unit/2) / unit
	if tenths%10 == 0 {
		return fmt.Sprint(int64(tenths / 10))
	}
	return fmt.Sprintf("%d.%d", tenths/10, tenths%10)
}

package hysteresis

import "time"

// slots is how finely a Window forgets: a thirtieth at a time, so a window of
// 30 s forgets by the second.
const slots = 30

// Window counts the share of failures over the last Length. It exists for
// links that lose 20 to 50 %, which a rise/fall filter rarely sees as down.
type Window struct {
	Length time.Duration

	slot   int64 // number of the newest slot since time 0
	total  [slots]int32
	failed [slots]int32
}

// Observe counts one observation made at now.
func (w *Window) Observe(now time.Duration, ok bool) {
	w.advance(now)
	i := w.slot % slots
	w.total[i]++
	if !ok {
		w.failed[i]++
	}
}

// Loss is the share of failures in the window at now, and 0 while it holds
// fewer than least observations: two probes are no statistic.
func (w *Window) Loss(now time.Duration, least int) float64 {
	w.advance(now)
	var total, failed int32
	for i := range slots {
		total += w.total[i]
		failed += w.failed[i]
	}
	if total == 0 || int(total) < least {
		return 0
	}
	return float64(failed) / float64(total)
}

// Reset forgets everything, as when a link has just come up.
func (w *Window) Reset() {
	w.total, w.failed = [slots]int32{}, [slots]int32{}
}

func (w *Window) advance(now time.Duration) {
	slot := int64(now) * slots / int64(w.Length)
	if slot <= w.slot {
		return
	}
	if slot-w.slot >= slots {
		w.Reset()
	} else {
		for s := w.slot + 1; s <= slot; s++ {
			w.total[s%slots], w.failed[s%slots] = 0, 0
		}
	}
	w.slot = slot
}

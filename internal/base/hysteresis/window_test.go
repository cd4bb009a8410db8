package hysteresis

import (
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	w := Window{Length: 30 * time.Second}
	observe := func(from, to time.Duration, ok bool) {
		for at := from; at < to; at += 500 * time.Millisecond {
			w.Observe(at, ok)
		}
	}
	observe(0, 5*time.Second, false)
	if got := w.Loss(5*time.Second, 20); got != 0 {
		t.Errorf("10 observations gave a loss of %v, want none yet", got)
	}
	observe(5*time.Second, 20*time.Second, true)
	if got := w.Loss(20*time.Second, 20); got != 0.25 {
		t.Errorf("10 of 40 lost gave %v", got)
	}
	if got := w.Loss(45*time.Second, 1); got != 0 {
		t.Errorf("losses older than the window still gave %v", got)
	}
	if got := w.Loss(time.Hour, 1); got != 0 {
		t.Errorf("an hour later the loss is %v", got)
	}
	observe(time.Hour, time.Hour+20*time.Second, false)
	w.Reset()
	if got := w.Loss(time.Hour+20*time.Second, 1); got != 0 {
		t.Errorf("after Reset the loss is %v", got)
	}
}

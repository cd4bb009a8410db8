package leader

import (
	"testing"
	"time"
)

func TestHistory(t *testing.T) {
	var h history
	if got := h.at(0, 42); got != 42 {
		t.Errorf("an empty history says %d, want the present", got)
	}
	for s := range 15 {
		h = h.add(time.Duration(s)*time.Second, uint64(1000*s))
		h = h.add(time.Duration(s)*time.Second+time.Millisecond, 999999) // too soon for a mark
	}
	tests := []struct {
		at   time.Duration
		want uint64
	}{
		{14 * time.Second, 14000},
		{9500 * time.Millisecond, 10000},
		{5 * time.Second, 5000},
		{time.Second, 5000},       // older than all marks: the oldest
		{15 * time.Second, 14500}, // younger than all: the present
	}
	for _, test := range tests {
		if got := h.at(test.at, 14500); got != test.want {
			t.Errorf("at %s: %d, want %d", test.at, got, test.want)
		}
	}
}

package hysteresis

import (
	"math"
	"testing"
	"time"
)

const half = 30 * time.Second

func TestDecayed(t *testing.T) {
	tests := []struct {
		penalty float64
		elapsed time.Duration
		want    float64
	}{
		{1, 0, 1},
		{1, -time.Hour, 1}, // a clock that went back must not grow or shrink it
		{1, half, 0.5},
		{1.5, 2 * half, 0.375},
		{0, half, 0},
	}
	for _, test := range tests {
		if got := Decayed(test.penalty, test.elapsed, half); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("Decayed(%v, %s) = %v, want %v", test.penalty, test.elapsed, got, test.want)
		}
	}
	if got := Decayed(1, time.Hour, 0); got != 1 {
		t.Errorf("without a half-life a penalty faded to %v", got)
	}
}

func TestUntil(t *testing.T) {
	tests := []struct {
		penalty float64
		want    time.Duration
	}{
		{0.4, 0},
		{1, 30 * time.Second},
		{1.5, 47549 * time.Millisecond},
		{2, 60 * time.Second},
	}
	for _, test := range tests {
		got := Until(test.penalty, 0.5, half)
		if (got - test.want).Abs() > time.Millisecond {
			t.Errorf("Until(%v) = %s, want %s", test.penalty, got, test.want)
		}
	}
	if got := Until(1, 0.5, 0); got != math.MaxInt64 {
		t.Errorf("without a half-life the wait ends after %s", got)
	}
}

// FuzzUntil: having waited as long as Until says, the penalty is below the limit.
func FuzzUntil(f *testing.F) {
	f.Add(1.0, 0.5)
	f.Add(1e300, 1e-300)
	f.Add(0.5, 0.5)
	f.Fuzz(func(t *testing.T, penalty, limit float64) {
		if !(penalty > 0 && limit > 0) || math.IsInf(penalty, 0) || math.IsInf(limit, 0) {
			return
		}
		wait := Until(penalty, limit, half)
		if got := Decayed(penalty, wait, half); wait < 0 || got >= limit {
			t.Errorf("Until(%v, %v) = %s leaves %v", penalty, limit, wait, got)
		}
	})
}

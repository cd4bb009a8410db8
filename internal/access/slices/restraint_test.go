package slices

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// TestHold: a write that failed holds up what comes after it, and not what comes
// before. Else the rest of a plan would have it tried, with the Lease, all the time.
func TestHold(t *testing.T) {
	now := time.Now()
	slice := func(node string, hints ...string) plan.Write {
		return plan.Write{Op: plan.UpdateSlice, Slice: plan.Slice{Name: plan.SliceName(node, plan.IPv4), Node: node, Hints: hints}}
	}
	lean, own, combined := slice("2", "b"), slice("1", "a"), plan.Write{Op: plan.UpdateCombined}
	var r restraint
	note := func(w plan.Write, at time.Duration, err error) {
		least, most := bounds(err)
		r.note(now.Add(at), keyOf(&w), least, most, err == nil)
	}
	for at := time.Duration(0); at < 20*time.Second; at += time.Second {
		note(lean, at, nil)
		note(own, at, errors.New("no answer"))
	}
	now = now.Add(19 * time.Second)
	tests := []struct {
		name   string
		writes []plan.Write
		waits  bool
	}{
		{"what failed, alone", []plan.Write{own}, true},
		{"and what comes after it", []plan.Write{own, combined}, true},
		{"what was done before, then what failed", []plan.Write{lean, own, combined}, true},
		{"something new, then what failed", []plan.Write{slice("3", "c"), own}, false},
		{"what was done before, then something new", []plan.Write{lean, combined}, false},
	}
	for _, test := range tests {
		if got := r.hold(now, test.writes); got > 0 != test.waits {
			t.Errorf("%s: waits %s", test.name, got)
		}
	}
}

// TestDoneAtLast: what succeeds after long trouble may be done again at once, and
// what is undone again and again may not.
func TestDoneAtLast(t *testing.T) {
	var r restraint
	now := time.Now()
	for range 60 {
		now = now.Add(time.Second / 2)
		r.note(now, "x", retryMin, mostUnanswered, false)
	}
	if r.note(now, "x", retryMin, mostWait, true); r.left(now, "x") > 2*retryMin {
		t.Errorf("done at last, and waits %s", r.left(now, "x"))
	}
	for n := range 60 {
		now = now.Add(time.Second / 2)
		r.note(now, "x", retryMin, mostWait, n%2 == 1)
	}
	if left := r.left(now, "x"); left < 10*time.Second {
		t.Errorf("undone all the time, and waits %s", left)
	}
}

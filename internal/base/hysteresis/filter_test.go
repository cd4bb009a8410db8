package hysteresis

import (
	"testing"
	"time"
)

func TestFilter(t *testing.T) {
	tests := []struct {
		name  string
		in    string // g: success, b: failure, one a second
		want  Verdict
		since time.Duration // at the end of in
		doubt bool
	}{
		{"nothing seen", "", Undecided, 0, false},
		{"one success is luck", "g", Undecided, 0, true},
		{"rise", "ggg", Good, 0, false},
		{"fall", "bb", Bad, 0, false},
		{"mixed runs decide nothing", "gbgbggbg", Undecided, 0, true},
		{"one failure is doubt", "gggb", Good, time.Second, true},
		{"a success ends the run", "gggbgb", Good, 3 * time.Second, true},
		{"falls from good", "gggbb", Bad, 0, false},
		{"rises from bad", "bbgggg", Good, time.Second, false},
		{"rise is not complete", "bbgg", Bad, 2 * time.Second, true},
		{"confirmation is no doubt", "bbgb", Bad, 2 * time.Second, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := Filter{Fall: 2, Rise: 3}
			now := time.Duration(0)
			for _, c := range test.in {
				now += time.Second
				f.Observe(now, c == 'g')
			}
			if f.Verdict() != test.want || f.Since(now) != test.since || f.Doubt() != test.doubt {
				t.Errorf("%q: got %v for %s, doubt %v; want %v for %s, doubt %v",
					test.in, f.Verdict(), f.Since(now), f.Doubt(), test.want, test.since, test.doubt)
			}
		})
	}
}

func TestObserveReportsChanges(t *testing.T) {
	f := Filter{Fall: 2, Rise: 2}
	want := []bool{false, true, false, false, true, false}
	for i, ok := range []bool{true, true, true, false, false, false} {
		if got := f.Observe(time.Duration(i)*time.Second, ok); got != want[i] {
			t.Errorf("observation %d: changed %v, want %v", i, got, want[i])
		}
	}
}

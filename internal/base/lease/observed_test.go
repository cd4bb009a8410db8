package lease

import (
	"testing"
	"time"
)

func TestObserved(t *testing.T) {
	start := time.Now()
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	a := Record{Holder: "a", Duration: 10 * time.Second, Mark: "1"}
	renewed := Record{Holder: "a", Duration: 10 * time.Second, Mark: "2"}
	backwards := Record{Holder: "a", Duration: 10 * time.Second, Mark: "0"} // of a clock set back
	shorter := Record{Holder: "a", Duration: time.Second, Mark: "1"}
	free := Record{Duration: 10 * time.Second, Mark: "3"}
	type look struct {
		record Record
		at     float64
	}
	for _, c := range []struct {
		name      string
		looks     []look
		at        float64
		lapsed    bool
		unchanged time.Duration
	}{
		{"never seen", nil, 100, false, 0},
		{"just seen, however old", []look{{a, 50}}, 50, false, 0},
		{"almost", []look{{a, 0}, {a, 5}}, 9.9, false, 9900 * time.Millisecond},
		{"lapsed to the moment", []look{{a, 0}, {a, 5}}, 10, true, 10 * time.Second},
		{"renewed", []look{{a, 0}, {renewed, 9}}, 18, false, 9 * time.Second},
		{"renewed by a clock set back", []look{{a, 0}, {backwards, 9}}, 18, false, 9 * time.Second},
		{"another promise is another record", []look{{a, 0}, {shorter, 9}}, 9.5, false, 500 * time.Millisecond},
		{"and counts", []look{{a, 0}, {shorter, 9}}, 10, true, time.Second},
		{"released", []look{{a, 0}, {free, 1}}, 1, true, 0},
		{"a look back in time", []look{{a, 5}}, 4, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var o Observed
			for _, l := range c.looks {
				o.See(l.record, at(l.at))
			}
			if got := o.Lapsed(at(c.at)); got != c.lapsed {
				t.Errorf("lapsed: %v", got)
			}
			if got := o.Unchanged(at(c.at)); got != c.unchanged {
				t.Errorf("unchanged for %v, want %v", got, c.unchanged)
			}
			r, seen := o.Record()
			if r.Holder != "" && o.Lapsed(o.Lapses().Add(-1)) || o.Lapsed(o.Lapses()) != seen {
				t.Errorf("lapses at %v, which is not the moment", o.Lapses().Sub(start))
			}
			o.Forget()
			if o.Lapsed(at(1000)) {
				t.Error("lapsed after it was forgotten")
			}
		})
	}
}

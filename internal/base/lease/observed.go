package lease

import "time"

// Record is what a Lease said when it was read.
type Record struct {
	// Holder is who has it; empty says nobody.
	Holder string
	// Duration is what the holder promised to renew it within.
	Duration time.Duration
	// Mark differs after each renewal. It is compared, never interpreted.
	Mark string
}

// Observed is a Lease as one observer has seen it, on the observer's own clock.
// The zero value has seen nothing.
type Observed struct {
	record Record
	since  time.Time
	known  bool
}

// See notes that the record was read. at is a time after the answer came, with a
// monotonic reading. It returns whether the record differs from the last.
func (o *Observed) See(r Record, at time.Time) (changed bool) {
	if o.known && o.record == r {
		return false
	}
	o.record, o.since, o.known = r, at, true
	return true
}

// Forget drops what was seen, as after a time without news: the record may
// have changed and changed back unseen, and counts as fresh when it is next read.
func (o *Observed) Forget() { *o = Observed{} }

// Record is what was last seen; false when nothing was.
func (o *Observed) Record() (Record, bool) { return o.record, o.known }

// Unchanged is for how long the record has been seen as it is; 0 when nothing
// was seen.
func (o *Observed) Unchanged(now time.Time) time.Duration {
	if !o.known {
		return 0
	}
	return max(0, now.Sub(o.since))
}

// Lapsed says that nobody has the Lease: it was released, or was not renewed for
// all of its own Duration. Of what was never seen it says no.
func (o *Observed) Lapsed(now time.Time) bool {
	return o.known && (o.record.Holder == "" || o.Unchanged(now) >= o.record.Duration)
}

// Lapses is when the Lease lapses unless it is renewed; zero when it was never seen.
func (o *Observed) Lapses() time.Time {
	switch {
	case !o.known:
		return time.Time{}
	case o.record.Holder == "":
		return o.since
	}
	return o.since.Add(o.record.Duration)
}

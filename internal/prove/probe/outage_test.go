package probe

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// series makes a sample per letter, 100 ms apart: o good, s good after 1.5 s,
// t timeout, r refused.
func series(path, letters string) []Sample {
	var all []Sample
	for i, l := range []byte(letters) {
		at := epoch.Add(time.Duration(i) * 100 * time.Millisecond)
		s := Sample{Path: path, Seq: uint64(i), Scheduled: at, Sent: at.Add(time.Millisecond), OK: true}
		s.Done = s.Sent.Add(2 * time.Millisecond)
		switch l {
		case 's':
			s.Done = s.Sent.Add(1500 * time.Millisecond)
		case 't':
			s.OK, s.Class, s.Error, s.Done = false, ClassTimeout, "wait for answer: context deadline exceeded", s.Sent.Add(time.Second)
		case 'r':
			s.OK, s.Class, s.Error = false, ClassRefused, "dial tcp 10.0.0.1:2379: connect: connection refused"
		}
		all = append(all, s)
	}
	return all
}

func TestGaps(t *testing.T) {
	type want struct {
		lower, upper int // ms
		failed       int
		open         bool
	}
	for _, c := range []struct {
		letters string
		want    []want
	}{
		{"", nil},
		{"oooo", nil},
		{"ooroo", []want{{0, 200, 1, false}}},
		{"oottro", []want{{200, 400, 3, false}}},
		{"rro", []want{{100, 200, 2, false}}}, // never good before: from the first send
		{"oorr", []want{{100, 200, 2, true}}}, // not good again: to the last send
		{"r", []want{{0, 0, 1, true}}},
		{"orroto", []want{{100, 300, 2, false}, {0, 200, 1, false}}},
		{"osso", nil}, // slow is not failed
	} {
		gaps := Gaps(series("p", c.letters))
		if len(gaps) != len(c.want) {
			t.Errorf("%q: %d gaps, want %d", c.letters, len(gaps), len(c.want))
			continue
		}
		for i, g := range gaps {
			got := want{int(g.Lower().Milliseconds()), int(g.Upper().Milliseconds()), g.Failed(), g.Open}
			if got != c.want[i] {
				t.Errorf("%q gap %d: %+v, want %+v", c.letters, i, got, c.want[i])
			}
		}
	}
}

// A target that answers at once and is down in known intervals is sampled at
// irregular times: each true outage that a sample met lies within the bounds
// of the gap around it.
func TestGapsBracketTheTruth(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var downs [][2]time.Duration
		at := time.Duration(0)
		for range rng.IntN(4) {
			at += time.Duration(1+rng.IntN(3000)) * time.Millisecond
			end := at + time.Duration(1+rng.IntN(2000))*time.Millisecond
			downs = append(downs, [2]time.Duration{at, end})
			at = end + 500*time.Millisecond
		}
		var samples []Sample
		sent := time.Duration(0)
		for seq := range uint64(200) {
			down := slices.ContainsFunc(downs, func(d [2]time.Duration) bool { return d[0] <= sent && sent < d[1] })
			s := Sample{Path: "p", Seq: seq, Sent: epoch.Add(sent), OK: !down}
			if down {
				s.Class = ClassRefused
			}
			samples = append(samples, s)
			sent += time.Duration(50+rng.IntN(100)) * time.Millisecond
		}
		checkBracket(t, seed, Gaps(samples), downs, samples)
	}
}

func checkBracket(t *testing.T, seed uint64, gaps []Gap, downs [][2]time.Duration, samples []Sample) {
	t.Helper()
	failed := 0
	for _, g := range gaps {
		failed += g.Failed()
		var truth time.Duration
		met := 0
		for _, d := range downs {
			from, to := epoch.Add(d[0]), epoch.Add(d[1])
			if g.FirstBad.Before(to) && !g.LastBad.Before(from) {
				truth += to.Sub(from)
				met++
			}
		}
		if met == 1 && !g.Open && !g.LastGood.IsZero() && (g.Lower() > truth || truth > g.Upper()) {
			t.Fatalf("seed %d: outage of %v outside [%v, %v]", seed, truth, g.Lower(), g.Upper())
		}
		if g.Lower() > g.Upper() {
			t.Fatalf("seed %d: lower %v over upper %v", seed, g.Lower(), g.Upper())
		}
	}
	bad := 0
	for _, s := range samples {
		if !s.OK {
			bad++
		}
	}
	if failed != bad {
		t.Fatalf("seed %d: gaps hold %d failures of %d", seed, failed, bad)
	}
}

func TestStableFrom(t *testing.T) {
	for _, c := range []struct {
		letters string
		after   int // ms
		n       int
		want    int // index, -1 none
	}{
		{"ooooo", 0, 3, 0},
		{"ooooo", 150, 3, 2},
		{"orrorrooo", 100, 1, 3},
		{"orrorrooo", 100, 3, 6},
		{"orrorroo", 100, 3, -1},
		{"", 0, 1, -1},
	} {
		at, ok := StableFrom(series("p", c.letters), epoch.Add(time.Duration(c.after)*time.Millisecond), c.n)
		got := -1
		if ok {
			got = int(at.Sub(epoch) / (100 * time.Millisecond))
		}
		if got != c.want {
			t.Errorf("%q after %d ms, %d in a row: sample %d, want %d", c.letters, c.after, c.n, got, c.want)
		}
	}
}

package probe

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestSummarise(t *testing.T) {
	samples := series("p", "ooooo"+"rrtt"+"oo"+"t"+"osoooooooooo")
	s := Summarise("p", samples)
	if s.Samples != 24 || s.Failed != 5 || s.Slow != 1 || s.Outages != 2 || s.Lost != 0 {
		t.Errorf("samples %d failed %d slow %d outages %d lost %d", s.Samples, s.Failed, s.Slow, s.Outages, s.Lost)
	}
	if s.TotalLower != 300*time.Millisecond || s.TotalUpper != 700*time.Millisecond {
		t.Errorf("total [%v, %v]", s.TotalLower, s.TotalUpper)
	}
	if s.Longest == nil || s.Longest.Lower() != 300*time.Millisecond {
		t.Errorf("longest %+v", s.Longest)
	}
	if s.Recovery == nil || *s.Recovery != 100*time.Millisecond {
		t.Errorf("recovery %v, want 100ms: the last gap is one sample long", s.Recovery)
	}
	if s.Errors[ClassRefused] != 2 || s.Errors[ClassTimeout] != 3 {
		t.Errorf("errors %v", s.Errors)
	}
	if s.Lag.Max != time.Millisecond || s.Latency.Max != 1500*time.Millisecond {
		t.Errorf("lag %v latency %v", s.Lag.Max, s.Latency.Max)
	}
}

func TestSummaryCountsAnOpenOutageAndLostTicks(t *testing.T) {
	samples := series("p", "oooooorrr")
	samples = slices.Delete(samples, 2, 4)
	tally := NewTally("p", 0, 0)
	for _, s := range samples {
		tally.Add(s)
	}
	for range 2 { // looking must not change anything
		s := tally.Summary()
		if s.Outages != 1 || !s.Gaps[0].Open || s.Recovery != nil || s.Lost != 2 {
			t.Errorf("%+v", s)
		}
	}
}

// The tally, which forgets samples, agrees with Gaps, which has them all.
func TestTallyAgreesWithGaps(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 2))
		letters := make([]byte, rng.IntN(200))
		for i := range letters {
			letters[i] = "ooooort"[rng.IntN(7)]
		}
		samples := series("p", string(letters))
		s, gaps := Summarise("p", samples), Gaps(samples)
		var lower, upper, longest time.Duration
		for _, g := range gaps {
			lower += g.Lower()
			upper += g.Upper()
			longest = max(longest, g.Lower())
		}
		if s.Outages != len(gaps) || s.TotalLower != lower || s.TotalUpper != upper ||
			len(gaps) > 0 && s.Longest.Lower() != longest {
			t.Fatalf("seed %d, %s: %+v, want %d gaps [%v, %v]", seed, letters, s, len(gaps), lower, upper)
		}
	}
}

func TestQuantilesAreWithinOnePercent(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for range 50 {
		var h histogram
		var all []time.Duration
		for range 1 + rng.IntN(5000) {
			d := time.Duration(rng.ExpFloat64() * float64(20*time.Millisecond))
			all = append(all, d)
			h.add(d)
		}
		slices.Sort(all)
		for _, q := range []float64{0.5, 0.9, 0.99} {
			exact := all[max(0, int(float64(len(all))*q+0.999999)-1)]
			if got := h.quantile(q); float64(got) < 0.989*float64(exact)-1000 || float64(got) > 1.011*float64(exact)+1000 {
				t.Errorf("q%v of %d: %v, want %v", q, len(all), got, exact)
			}
		}
	}
	var none histogram
	if none.quantiles() != (Quantiles{}) {
		t.Error("an empty histogram has quantiles")
	}
}

func TestTallyIsBounded(t *testing.T) {
	tally := NewTally("p", 0, 0)
	at := epoch
	for seq := range uint64(20_000) {
		tally.Add(Sample{Path: "p", Seq: seq, Sent: at, Done: at, OK: seq%2 == 0})
		at = at.Add(100 * time.Millisecond)
	}
	s := tally.Summary()
	if len(s.Gaps) != maxGaps || s.Outages != 10_000 || len(tally.latency.counts) > 2000 {
		t.Errorf("%d gaps kept of %d, %d buckets", len(s.Gaps), s.Outages, len(tally.latency.counts))
	}
}

package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// soakPace is how much faster than normal the agents of a soak work.
const soakPace = 10

// benchSoak lets agents work at ten times their rate for an hour and compares
// the private memory of the first and the last quarter.
func benchSoak(ctx context.Context, quick bool) ([]Row, error) {
	length, every := time.Hour, time.Minute
	if quick {
		length, every = time.Minute, 2*time.Second
	}
	r, err := newRest(ctx, fmt.Sprintf("--pace=%d", soakPace))
	if err != nil {
		return nil, err
	}
	defer r.close()
	var private []float64
	for end := time.Now().Add(length); time.Now().Before(end); {
		if !pause(ctx, every) {
			return nil, ctx.Err()
		}
		now, err := r.read(ctx)
		if err != nil {
			return nil, err
		}
		private = append(private, now.private)
		fmt.Fprintf(os.Stderr, "bench: soak %s left, private memory of the largest agent %.1f MB\n",
			time.Until(end).Round(time.Second), now.private)
	}
	// Twelve points and more: the first tenth is warming up, not rest.
	settled := private[len(private)/10:]
	quarter := max(len(settled)/4, 1)
	first, last := mean(settled[:quarter]), mean(settled[len(settled)-quarter:])
	note := fmt.Sprintf("%s at %d times the rate; mean of the last quarter against the first", length, soakPace)
	return []Row{
		atMost("soak-leader-private-memory", "MB", last, 30, note),
		// Pages come and go with the collector by more than this; a leak of a
		// hundred bytes a probe would be 20 MB.
		atMost("soak-leader-growth", "MB", last-first, 1, note),
	}, nil
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

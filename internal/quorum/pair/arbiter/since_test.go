package arbiter

import (
	"context"
	"testing"
	"time"
)

// TestSinceIsWhenTheSurvivorBegan: a new licence of the same survivor does not shorten
// what a person is told would be lost.
func TestSinceIsWhenTheSurvivorBegan(t *testing.T) {
	ctx := context.Background()
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	c := NewClient(&pausing{}, "a", Record{}, func(Record) error { return nil })
	c.now = func() time.Time { return at }
	next := Record{Cluster: 1, State: Paired, Members: [2]Member{{Name: "a", ID: 1}, {Name: "b", ID: 2}}}
	was, err := c.Change(ctx, Held{}, next)
	if err != nil || !was.Since.IsZero() {
		t.Fatalf("paired since %s, %v", was.Since, err)
	}
	for hour, step := range []struct {
		survivor string
		since    int // hour
	}{{"a", 0}, {"a", 0}, {"b", 2}, {"b", 2}, {"", -1}, {"a", 5}} {
		at = time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC)
		next := was.Record
		if step.survivor != next.Survivor {
			next.Since = time.Time{} // another begins
		}
		next.State, next.Survivor = Solo, step.survivor
		if step.survivor == "" {
			next.State = Paired
		}
		if was, err = c.Change(ctx, was, next); err != nil {
			t.Fatal(err)
		}
		want := time.Time{}
		if step.since >= 0 {
			want = time.Date(2026, 1, 2, step.since, 0, 0, 0, time.UTC)
		}
		if !was.Since.Equal(want) {
			t.Errorf("step %d: since %s, want %s", hour, was.Since, want)
		}
	}
}

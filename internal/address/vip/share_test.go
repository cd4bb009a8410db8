package vip

import (
	"testing"
	"time"
)

func TestShare(t *testing.T) {
	now := time.Now()
	early, late := now.Add(-time.Millisecond), now.Add(time.Millisecond)
	for _, c := range []struct {
		name string
		s    share
		w    wish
		want deed
	}{
		{"healthy", share{}, wanted, serve},
		{"healthy as before", share{held: true}, wanted, serve},
		{"healthy again before it was gone", share{held: true, leaving: late}, wanted, serve},
		{"never healthy", share{}, unwanted, drop},
		{"not healthy any more", share{held: true}, unwanted, withdraw},
		{"packets are under way", share{held: true, leaving: late}, unwanted, linger},
		{"no more are", share{held: true, leaving: early}, unwanted, drop},
		{"none were: no router knew", share{held: true, leaving: now}, unwanted, drop},
		{"no interface", share{held: true}, impossible, drop},
		{"no interface, and packets are under way", share{held: true, leaving: late}, impossible, drop},
	} {
		if got := c.s.next(now, c.w); got != c.want {
			t.Errorf("%s: %d, not %d", c.name, got, c.want)
		}
	}
}

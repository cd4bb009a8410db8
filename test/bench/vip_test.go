package main

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/test/caller"
)

func took(all ...float64) (rounds []round) {
	for _, v := range all {
		r := round{seen: caller.Seen{}}
		if v >= 0 {
			r.took = &v
		}
		rounds = append(rounds, r)
	}
	return rounds
}

// What never ended is worse than what ended late, and misses every bar.
func TestRoundsWithoutEnd(t *testing.T) {
	v := tookOf(took(5, -1, 3))
	if *middle(v) != 5 || last(v) != nil {
		t.Errorf("middle %v, last %v; want 5 and nothing", middle(v), last(v))
	}
	if r := within("x", "ms", middle(tookOf(took(-1, -1, 3))), 10, ""); r.Holds {
		t.Error("an outage without end holds its bar")
	}
}

func TestSilentRows(t *testing.T) {
	rivals := []rival{{name: "holdfast"}, {name: "a"}, {name: "b"}}
	rounds := [][]round{took(290, 270, 280), took(260, 265, 270), took(300, 310, 320)}
	rounds[1][0].stale = true
	rows := map[string]Row{}
	for _, r := range silentRows("vip-x", rivals, rounds, true) {
		rows[r.Name] = r
	}
	if r := rows["vip-x"]; *r.Ours != 280 || *r.Peer != 265 || !r.Holds {
		t.Errorf("%+v", r)
	}
	if r := rows["vip-x-ratio"]; r.Holds || *r.Ours < 1.05 {
		t.Errorf("6 %% slower than the peer holds: %+v", r)
	}
	if r := rows["vip-x-frr"]; *r.Peer != 310 || r.Bar != nil {
		t.Errorf("%+v", r)
	}
	if r := rows["vip-x-stale"]; *r.Ours != 0 || *r.Peer != 1 || !r.Holds {
		t.Errorf("%+v", r)
	}
}

func TestServedAgain(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	one := func(begun, long time.Duration, err string) call {
		return call{at.Add(begun), at.Add(begun + long), err}
	}
	all := []call{
		one(-10*time.Millisecond, time.Second, "cut"), // begun before
		one(100*time.Millisecond, 2*time.Millisecond, "refused"),
		one(200*time.Millisecond, time.Second, ""), // slow
		one(300*time.Millisecond, 2*time.Millisecond, ""),
	}
	if v, late := servedAgain(all, at); *v != 200 || late != 0 {
		t.Errorf("served again after %v ms, %v late ones", *v, late)
	}
	all = append(all, one(600*time.Millisecond, time.Millisecond, "refused"))
	if v, late := servedAgain(all, at); *v != 600 || late != 1 {
		t.Errorf("served again after %v ms, %v late ones", *v, late)
	}
	if v, late := servedAgain(nil, at); *v != 0 || late != 0 {
		t.Errorf("nothing failed: %v, %v", *v, late)
	}
}

func TestFailuresOfBFD(t *testing.T) {
	page := "# HELP holdfast_vip_bfd_failures_total Times.\nholdfast_vip_bfd_failures_total{peer=\"192.0.2.1\",interface=\"eth0\"} 2\n" +
		"holdfast_vip_bfd_failures_total{peer=\"192.0.2.2\",interface=\"\"} 1\nholdfast_vip_bfd_up{peer=\"192.0.2.2\",interface=\"\"} 1\n"
	if n, err := failures(strings.NewReader(page)); err != nil || n != 3 {
		t.Errorf("%d failures, %v", n, err)
	}
	if _, err := failures(strings.NewReader("x 1\n")); err == nil {
		t.Error("a page without sessions has no failures")
	}
}

func TestChangesOfSender(t *testing.T) {
	a := &adverts{heard: make(chan struct{}), from: map[byte]netip.Addr{}, turns: map[byte]int{}}
	one, two := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for _, from := range []netip.Addr{one, one, two, two, one} {
		a.note(51, from)
		a.note(52, two)
	}
	if a.changes(51) != 2 || a.changes(52) != 0 {
		t.Errorf("%d and %d changes, want 2 and 0", a.changes(51), a.changes(52))
	}
}

// Stations of a pair are each other's partner.
func TestPartners(t *testing.T) {
	for _, first := range []int{oursPair, mixedPair, theirsPair} {
		if partnerOf(first) != first+1 || partnerOf(first+1) != first {
			t.Errorf("partners of %d and %d: %d and %d", first, first+1, partnerOf(first), partnerOf(first+1))
		}
	}
}

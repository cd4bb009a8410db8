package source

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func ids(list []Backend) (all []string) {
	for _, b := range list {
		all = append(all, b.ID())
	}
	return all
}

func TestBookKeepsTheListOfASourceThatFallsSilent(t *testing.T) {
	k := book{}
	k.add("slices", false, Listed{Standing: LastGood, Backends: bs("10.0.0.1", "10.0.0.2")})
	k.static(bs("10.0.0.9"), nil)
	state := func(what string, want ...Backend) {
		t.Helper()
		k.merge()
		if !slices.Equal(k.result, want) {
			t.Errorf("%s:\n%+v\nwant\n%+v", what, k.result, want)
		}
	}
	state("after a restart", bs("10.0.0.1 by=last_good", "10.0.0.2 by=last_good", "10.0.0.9 by=static")...)
	k.publish("slices", bs("10.0.0.2", "10.0.0.3"), nil)
	state("answered", bs("10.0.0.2 by=slices", "10.0.0.3 by=slices", "10.0.0.9 demoted by=static")...)
	k.publish("slices", nil, nil)
	state("answered nothing", bs("10.0.0.2 by=last_good", "10.0.0.3 by=last_good", "10.0.0.9 by=static")...)
	k.publish("slices", bs("127.0.0.1", "224.0.0.1"), nil)
	state("answered nonsense", bs("10.0.0.2 by=last_good", "10.0.0.3 by=last_good", "10.0.0.9 by=static")...)
	if e := k.entry("slices"); e.rejected != 2 || len(e.reasons) != 2 {
		t.Errorf("rejected %d: %q", e.rejected, e.reasons)
	}
	k.publish("slices", bs("10.0.0.4", "0.0.0.0"), nil)
	state("answered again", bs("10.0.0.4 by=slices", "10.0.0.9 demoted by=static")...)
	k.publish("unknown", bs("10.0.0.8"), nil)
	state("a source nobody added", bs("10.0.0.4 by=slices", "10.0.0.9 demoted by=static")...)
}

// TestBookIsNeverEmpty plays random answers and looks that the list, once
// there, stays there, and that what came from disk goes when its source spoke.
func TestBookIsNeverEmpty(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		k := book{}
		for i := range 3 {
			known := Listed{Standing: LastGood}
			if r.IntN(2) == 0 {
				known.Backends = bs(fmt.Sprintf("10.8.0.%d", i))
			}
			k.add(fmt.Sprint(i), false, known)
		}
		if r.IntN(2) == 0 {
			k.static(bs("10.9.0.1"), nil)
		}
		spoken, had := map[int]bool{}, false
		for range 30 {
			i := r.IntN(3)
			var answer []Backend
			for n := range r.IntN(4) {
				answer = append(answer, b([]string{"127.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2 failing terminating"}[(n+i+r.IntN(3))%4]))
			}
			k.publish(fmt.Sprint(i), answer, nil)
			if e := k.entry(fmt.Sprint(i)); e.Standing == Confirmed {
				spoken[i] = true
			}
			k.merge()
			if had = had || len(k.result) > 0; had && len(k.result) == 0 {
				t.Fatalf("empty; seed %d", seed)
			}
			for j := range spoken {
				if slices.Contains(ids(k.result), fmt.Sprintf("10.8.0.%d:6443", j)) && len(ids(k.result)) > 1 && k.entry(fmt.Sprint(j)).Standing == Confirmed {
					t.Fatalf("10.8.0.%d stayed although source %d spoke; seed %d: %v", j, j, seed, k.result)
				}
			}
		}
	}
}

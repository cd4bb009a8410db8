package relay

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestTimersAgainstSorting compares the heap with a sorted list.
func TestTimersAgainstSorting(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	var heap timers
	alarms := make([]alarm, 40)
	set := map[*alarm]int64{}
	for step := range 20_000 {
		a := &alarms[random.IntN(len(alarms))]
		switch random.IntN(4) {
		case 0, 1:
			at := random.Int64N(1000)
			heap.set(a, at)
			set[a] = at
		case 2:
			heap.stop(a)
			delete(set, a)
		case 3:
			now := random.Int64N(1000)
			got := heap.due(now)
			first := int64(never)
			for _, at := range set {
				first = min(first, at)
			}
			if (got != nil) != (first <= now) || got != nil && set[got] != first {
				t.Fatalf("seed %d, step %d: due %v at %d, first %d", seed, step, got, now, first)
			}
			delete(set, got)
		}
		for b := range alarms {
			if _, is := set[&alarms[b]]; is != (alarms[b].index > 0) {
				t.Fatalf("seed %d, step %d: alarm %d set %v, index %d", seed, step, b, is, alarms[b].index)
			}
		}
	}
}

func TestDueBy(t *testing.T) {
	const spread = 300 * time.Millisecond
	for _, n := range []int{1, 2, 7, 100, 4000} {
		last := 0
		for elapsed := time.Duration(0); elapsed <= spread; elapsed += purgeTick {
			due := dueBy(n, elapsed, spread)
			if due < 1 || due < last || due > n {
				t.Fatalf("%d of %d after %s, %d before", due, n, elapsed, last)
			}
			if even := n * int(elapsed+purgeTick) / int(spread); due-even > 1 {
				t.Fatalf("%d of %d after %s, evenly %d", due, n, elapsed, even)
			}
			last = due
		}
		if last != n {
			t.Errorf("%d of %d at the end", last, n)
		}
	}
	if dueBy(5, 0, 0) != 5 {
		t.Error("no spread means all at once")
	}
}

func TestAges(t *testing.T) {
	a := ages{perSecond: 10}
	taken := 0
	for now := int64(1); now < int64(10*time.Second); now += int64(time.Millisecond) {
		if a.take(now) {
			taken++
		}
	}
	if taken < 99 || taken > 102 {
		t.Errorf("%d in 10 s at 10 per second", taken)
	}
}

func TestQueueIsFirstComeFirstServed(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	const limit = 8
	q := &queue{}
	var model []*waiter
	for step := range 10_000 {
		if random.IntN(2) == 0 {
			w := &waiter{session: &session{}}
			if ok := q.push(w, limit); ok != (len(model) < limit) {
				t.Fatalf("seed %d, step %d: push %v with %d", seed, step, ok, len(model))
			} else if ok {
				model = append(model, w)
			}
		} else if len(model) > 0 {
			i := random.IntN(len(model))
			if !q.remove(model[i]) || q.remove(model[i]) {
				t.Fatalf("seed %d, step %d: remove", seed, step)
			}
			model = slices.Delete(model, i, i+1)
		}
		want := (*session)(nil)
		if len(model) > 0 {
			want = model[0].session
		}
		if q.head() != want || int(q.length.Load()) != len(model) {
			t.Fatalf("seed %d, step %d: wrong head or length %d, want %d", seed, step, q.length.Load(), len(model))
		}
	}
}

// host is a pretended target of TestRaceFindsWhoServes.
type host struct {
	// takes is when an attempt is decided, accepts how.
	takes   int64
	accepts bool
}

// TestRaceFindsWhoServes plays random schedules: a client must be served when
// a target accepts within the budget, though others refuse late or never.
func TestRaceFindsWhoServes(t *testing.T) {
	const stagger, budget = 200, 5000
	for range 20_000 {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		hosts := make([]host, 1+random.IntN(5))
		best := int64(never)
		for i := range hosts {
			hosts[i] = host{takes: random.Int64N(400), accepts: random.IntN(3) == 0}
			if random.IntN(3) == 0 {
				hosts[i] = host{takes: 1 << 40}
			}
			if hosts[i].accepts {
				// Asked no later than after a stagger for each before it.
				best = min(best, int64(i)*stagger+hosts[i].takes)
			}
		}
		served, at := play(hosts, race{stagger: stagger, budget: budget})
		if (best <= budget) != served || served && at > best {
			t.Fatalf("seed %d: served %v at %d, possible at %d; %v", seed, served, at, best, hosts)
		}
	}
}

// play runs a race of a client against hosts asked in order.
func play(hosts []host, r race) (served bool, now int64) {
	type flight struct {
		done    int64
		accepts bool
	}
	var flights []flight
	asked := 0
	r.start(0)
	for {
		for again := true; again; {
			switch r.verdict(now) {
			case giveUp:
				return false, now
			case wait:
				again = false
			case ask:
				switch {
				case asked < len(hosts):
					flights = append(flights, flight{now + hosts[asked].takes, hosts[asked].accepts})
					asked++
					r.asked(now)
				case r.idle():
					return false, now
				default:
					r.later(now, r.stagger)
				}
			}
		}
		next, who := r.wakeAt(), -1
		for i, f := range flights {
			if f.done <= next {
				next, who = f.done, i
			}
		}
		now = max(now, next)
		if who < 0 {
			continue
		}
		if flights[who].accepts {
			r.accepted()
			return true, now
		}
		flights = slices.Delete(flights, who, who+1)
		r.dialFailed(now)
	}
}

// TestRaceAfterSilence follows one race through a silent and a lost target.
func TestRaceAfterSilence(t *testing.T) {
	r := race{stagger: 200, budget: 1000, firstByte: 500}
	r.start(0)
	want := func(now int64, v verdict) {
		t.Helper()
		if got := r.verdict(now); got != v {
			t.Fatalf("at %d: verdict %d, want %d; %+v", now, got, v, r)
		}
	}
	want(0, ask)
	r.asked(0)
	want(100, wait)
	r.accepted()
	want(5000, wait) // the client has not said anything: no hurry
	r.greeted(5000)
	want(5499, wait)
	want(5500, ask)
	r.asked(5500)
	want(5700, ask) // the second does not answer either
	r.later(5700, 200)
	r.dialFailed(5800)
	want(5800, ask)
	r.later(5800, 200)
	r.lost(5900)
	want(5900, ask)
	r.asked(5900)
	want(6099, wait)
	want(6900, giveUp) // a budget after the loss
}

func TestUnacknowledged(t *testing.T) {
	for _, c := range []struct {
		info unix.TCPInfo
		want bool
	}{
		{unix.TCPInfo{}, false},
		{unix.TCPInfo{Unacked: 5}, false},
		{unix.TCPInfo{Unacked: 5, Retransmits: 1, Backoff: 1}, false},
		{unix.TCPInfo{Unacked: 1, Retransmits: 2}, true},
		{unix.TCPInfo{Unacked: 1, Backoff: 2}, true},
		{unix.TCPInfo{Backoff: 3, Snd_wnd: 65536, Snd_mss: 1448}, false},                   // nothing to send
		{unix.TCPInfo{Backoff: 3, Notsent_bytes: 9, Snd_mss: 1448}, false},                 // probing a closed window
		{unix.TCPInfo{Backoff: 3, Notsent_bytes: 9, Snd_wnd: 100, Snd_mss: 1448}, false},   // a window too small to use
		{unix.TCPInfo{Backoff: 3, Notsent_bytes: 9, Snd_wnd: 65536, Snd_mss: 1448}, true},  // dropped on the way out
		{unix.TCPInfo{Backoff: 1, Notsent_bytes: 9, Snd_wnd: 65536, Snd_mss: 1448}, false}, // once is nothing
	} {
		if got := unacknowledged(&c.info); got != c.want {
			t.Errorf("%+v: %v", c.info, got)
		}
	}
}

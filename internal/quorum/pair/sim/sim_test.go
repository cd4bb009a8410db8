package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	schedules = flag.Int("schedules", 0, "how many schedules to run (default 2000, 200 under -race or -short)")
	seed      = flag.Uint64("seed", 0, "seed of the first schedule (default: from the clock)")
)

// setting is a flag, else an environment variable, else a default.
func setting(flagged uint64, env string, otherwise uint64) uint64 {
	if flagged != 0 {
		return flagged
	}
	if n, err := strconv.ParseUint(os.Getenv(env), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// TestSchedules runs randomised schedules; see the package documentation for
// how to run more, and one again.
func TestSchedules(t *testing.T) {
	count := uint64(2000)
	if testing.Short() || raceEnabled {
		count = 200
	}
	count = setting(uint64(*schedules), "HOLDFAST_SIM_SCHEDULES", count)
	first := setting(*seed, "HOLDFAST_SIM_SEED", uint64(time.Now().UnixNano())%1e12)
	t.Logf("seeds %d to %d", first, first+count-1)
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // small heap, many small values
	// A long schedule leaves its buffers to the next, and with them a larger heap.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30))
	var total tally
	began := time.Now()
	total.run(t, first, count)
	t.Logf("%d schedules in %s (%.0f a second): %s", count, time.Since(began).Round(time.Millisecond),
		float64(count)/time.Since(began).Seconds(), total.String())
}

// TestASeedIsASchedule runs some twice, in worlds that have seen others.
func TestASeedIsASchedule(t *testing.T) {
	a, b := NewWorld(), NewWorld()
	for seed := range uint64(20) {
		Schedule(b, seed+1000)
		if x, y := Schedule(a, seed), Schedule(b, seed); x != y {
			t.Errorf("seed %d: %+v, and again %+v", seed, x, y)
		}
	}
}

// tally sums the results of many schedules, run on every core.
type tally struct {
	next, broken atomic.Uint64
	mu           sync.Mutex
	sum          Result
	again        []time.Duration
}

func (y *tally) String() string {
	s := &y.sum
	slices.Sort(y.again)
	at := func(p float64) time.Duration {
		if len(y.again) == 0 {
			return 0
		}
		return y.again[int(p*float64(len(y.again)-1))].Round(100 * time.Millisecond)
	}
	return fmt.Sprintf("%d faults, %d claims, %d edits, %d times paired, %d directories set aside, %d writes; a pair again after %s, %s, %s (half, 99 %%, all); %s simulated",
		s.Faults, s.Claims, s.Edits, s.Pairs, s.Asides, s.Writes, at(0.5), at(0.99), at(1), s.Simulated.Round(time.Second))
}

func (y *tally) run(t *testing.T, first, count uint64) {
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			w := NewWorld()
			if count == 1 {
				w.Trace = func(at time.Duration, line string) { t.Logf("%9.3f  %s", at.Seconds(), line) }
			}
			for n := y.next.Add(1); n <= count && y.broken.Load() < 10; n = y.next.Add(1) {
				y.add(t, first+n-1, Schedule(w, first+n-1))
			}
		})
	}
	all.Wait()
}

func (y *tally) add(t *testing.T, seed uint64, r Result) {
	y.mu.Lock()
	defer y.mu.Unlock()
	s := &y.sum
	s.Faults += r.Faults
	s.Claims += r.Claims
	s.Edits += r.Edits
	s.Pairs += r.Pairs
	s.Asides += r.Asides
	s.Writes += r.Writes
	s.Simulated += r.Simulated
	y.again = append(y.again, r.Again)
	if r.Broken != "" {
		y.broken.Add(1)
		t.Errorf("seed %d: %s\nrun it again: go test ./internal/quorum/pair/sim -run Schedules -seed=%d -schedules=1 -v", seed, r.Broken, seed)
	}
}

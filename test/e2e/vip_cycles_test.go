package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Agents die at random and come back, again and again: never do two answer for
// longer than an advert and a round trip, and each time it ends on one, which the
// client believes.
func TestVIPCycles(t *testing.T) {
	nightly(t)
	cycles, seed := number(t, "HOLDFAST_VIP_CYCLES", 100), number(t, "HOLDFAST_SEED", int(time.Now().UnixNano()%1e9))
	t.Logf("HOLDFAST_SEED=%d HOLDFAST_VIP_CYCLES=%d", seed, cycles)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	w := three(t)
	var holders int
	var gap, both time.Duration
	for cycle := range cycles {
		victim, begun := 1+random.IntN(3), time.Now()
		most := 5*time.Millisecond + slack/4
		if w.client.Last() == victim {
			holders++
			most = 330*time.Millisecond + slack
		}
		w.kill(victim, syscall.SIGKILL)
		<-time.After(time.Duration(random.IntN(600)) * time.Millisecond)
		w.start(victim, router(victim), "")
		w.awaitOne()
		<-time.After(time.Duration(random.IntN(1000)) * time.Millisecond)
		w.awaitOne()
		seen := w.client.Since(begun)
		gap, both = max(gap, seen.Gap), max(both, seen.Both)
		w.expect(fmt.Sprintf("cycle %d, machine %d", cycle, victim), seen, most, oneAdvert)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d cycles, %d of a holder: longest gap %s, longest two at once %s", cycles, holders, gap.Round(time.Millisecond), both.Round(100*time.Microsecond))
}

// number is a setting of the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

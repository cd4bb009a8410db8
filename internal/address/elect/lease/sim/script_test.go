package sim

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// scenario is one fault, played in a world without chance: all clocks agree, and
// every delay is the middle of its range.
type scenario struct {
	name string
	play func(w *World)
}

func inject(all ...Fault) func(*World) {
	return func(w *World) {
		for _, f := range all {
			w.Inject(w.now, f)
		}
		w.Run(8 * time.Second)
	}
}

var scenarios = []scenario{
	{name: "silent", play: inject(Fault{Do: Crash, A: 0})},
	{name: "killed", play: inject(Fault{Do: Kill, A: 0})},
	{name: "frozen", play: inject(Fault{Do: Freeze, A: 0, For: 5 * time.Second})},
	{name: "cut-from-the-api", play: inject(Fault{Do: Path, A: 0, Way: hang})},
	{name: "refused-by-the-api", play: inject(Fault{Do: Path, A: 0, Way: refuse})},
	{name: "api-down", play: func(w *World) {
		inject(Fault{Do: API, Way: hang})(w)
		inject(Fault{Do: API})(w)
	}},
	{name: "api-and-a-peer-down", play: func(w *World) {
		inject(Fault{Do: Crash, A: 1}, Fault{Do: API, Way: hang})(w)
		inject(Fault{Do: API})(w)
	}},
	{name: "drop", play: func(w *World) {
		inject(Fault{Do: API, Way: hang})(w)
		inject(Fault{Do: API})(w)
	}},
	{name: "stop", play: inject(Fault{Do: Stop, A: 0})},
	{name: "stop-without-the-api", play: inject(Fault{Do: Path, A: 0, Way: hang}, Fault{Do: Stop, A: 0})},
	{name: "stop-unheard", play: inject(
		Fault{Do: Cut, A: 1, B: 0}, Fault{Do: Cut, A: 2, B: 0}, Fault{Do: Stop, A: 0},
	)},
	{name: "unready", play: inject(Fault{Do: Unready, A: 0})},
	{name: "nobody-ready", play: inject(Fault{Do: Unready, A: 1}, Fault{Do: Unready, A: 2}, Fault{Do: Unready, A: 0})},
	{name: "deleted", play: inject(Fault{Do: Delete})},
}

// TestTranscripts plays single faults with the defaults; what the transcripts
// say about times is what the guide promises.
func TestTranscripts(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			var out bytes.Buffer
			w := NewWorld()
			w.Reset(Shape{
				Nodes: 3, Config: lease.Config{Key: []byte("key"), Linger: time.Second, Duration: lease.DefaultDuration},
				Fast: 10 * time.Millisecond, Lag: 10 * time.Millisecond,
			}, nil)
			if s.name == "drop" {
				w.shape.Config.Policy = lease.Drop
			}
			w.Run(10 * time.Second)
			w.Trace = func(at time.Duration, line string) {
				fmt.Fprintf(&out, "%6.3f  %s\n", (at - 10*time.Second).Seconds(), line)
			}
			s.play(w)
			fmt.Fprintf(&out, "        held by %v\n", w.holders())
			if w.judge.broken != "" {
				t.Error(w.judge.broken)
			}
			compare(t, filepath.Join("testdata", s.name+".txt"), out.Bytes())
		})
	}
}

// TestTheHolderIsTheLastToReachTheAPI plays outages of the API of all lengths up to
// a lease, from all moments between two renewals, that end for the holder an eighth
// of a lease after they have for the others. Nobody lets go: what is left of the
// lease by then is enough for one more write.
func TestTheHolderIsTheLastToReachTheAPI(t *testing.T) {
	outages := uint64(10000)
	if testing.Short() || raceEnabled {
		outages = 1000
	}
	for _, unit := range []time.Duration{lease.MinDuration, lease.DefaultDuration} {
		lost := ""
		for seed := range outages {
			if broken := lastToReach(unit, seed); broken != "" {
				lost += fmt.Sprintf("\nseed %d: %s", seed, broken)
			}
		}
		if lost != "" {
			t.Errorf("lease %v: %d of %d outages: %.1000s", unit, strings.Count(lost, "\n"), outages, lost)
		}
	}
}

// lastToReach plays one such outage.
func lastToReach(unit time.Duration, seed uint64) (broken string) {
	w, rng := NewWorld(), rand.New(rand.NewPCG(seed, 1))
	w.Reset(Shape{
		Nodes: 3, Config: lease.Config{Key: []byte("key"), Linger: time.Second, Duration: unit},
		Fast: unit / 100, Lag: unit / 100,
	}, rng)
	w.Run(time.Second + 4*unit)
	w.judge.settled = true
	begin, holder := w.now+w.between(0, unit/2), w.holders()[0]
	end := begin + w.between(unit/4, unit)
	for i := range w.n {
		w.Inject(begin, Fault{Do: Path, A: i, Way: hang})
		if i == holder {
			w.Inject(end+unit/8, Fault{Do: Path, A: i})
		} else {
			w.Inject(end, Fault{Do: Path, A: i})
		}
	}
	w.Run(end - w.now + unit)
	return w.judge.broken
}

func compare(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s (update with -update):\n%s\nwant:\n%s", file, got, want)
	}
}

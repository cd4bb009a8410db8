package landing

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// at runs a script against a Watch of zone a: each word is a second and what
// happens then. e0 shows the endpoints of three, e1 the same after b has gone, e2
// those of a alone, e3 hints that are not in force. A letter is a connection that
// lands there, "-" one that is lost. ":unknown", ":kept" and ":strays" is the
// state that must follow.
func at(t *testing.T, script string) {
	t.Helper()
	var w Watch
	worlds := map[string][]Endpoint{"e0": three(), "e1": three(), "e2": three()[:1], "e3": three()}
	worlds["e1"][1].Ready = false
	worlds["e3"][2].Hints = nil
	book := Book{}
	for address, a := range shown() {
		book[address] = a.Print
	}
	for _, word := range strings.Fields(script) {
		var sec int
		what := ""
		if _, err := fmt.Sscanf(word, "%d%s", &sec, &what); err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		now := time.Duration(sec) * time.Second
		what, want, checked := strings.Cut(what, ":")
		if world, ok := worlds[what]; ok {
			w.See(now, Expect("n1", "a", world))
		} else {
			for _, a := range got(what) {
				var who []string
				if a.Err == nil {
					who = book.Who(a.Print)
				}
				w.Note(now-time.Second, now, who)
			}
		}
		if checked && w.State().String() != want {
			t.Errorf("after %s: %s", word, w.State())
		}
	}
}

func TestWatch(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"seven that stay tell", "0e0 12aaaaaa:unknown 42a:kept"},
		{"one that strays tells", "0e0 12b:strays"},
		{"not before what is expected has settled", "0e0 5b:unknown 10b:unknown 11b:strays"},
		{"a change starts that anew", "0e0 12aaaaaaa:kept 20e1 25b:kept 29b:kept 31b:strays"},
		{"what is seen again is no change", "0e0 8e0 11b:strays"},
		{"well after as many in a row as tell", "0e0 12b 40aaaaaa:strays 70a:kept"},
		{"a stray in between starts the row anew", "0e0 12b 40aaaaaa 50c 60aaaaaa:strays 70a:kept"},
		{"of two endpoints it takes ten", "0e1 12c:strays 40aaaaaaaaa:strays 70a:kept"},
		{"what is lost tells nothing, and does not start it anew", "0e0 12c 40aaa---aaa:strays 70-:strays 80a:kept"},
		{"nor does a stranger", "0e0 12???:unknown 13aaaaaaa:kept 14?:kept"},
		{"the only endpoint tells nothing", "0e2 12aaaaaaaaaaaa:unknown"},
		{"without hints in force nothing is a stray", "0e3 12bcbcbc:unknown"},
		{"a problem stands while nothing can tell", "0e0 12b 20e2 60aaaaaaaa:strays 300e2:strays"},
		{"and is forgotten in the end", "0e0 12b 20e2 60aaaaaaaa:strays 613e2:unknown"},
	} {
		t.Run(c.name, func(t *testing.T) { at(t, c.script) })
	}
}

func TestComplaint(t *testing.T) {
	var w Watch
	w.See(0, Expect("n1", "a", three()))
	if w.Complaint("n1", "a", "restart it") != "" || w.Note(Settle, Settle, []string{"10.0.0.3:6443"}) != Strayed {
		t.Fatal("it complains without a cause, or not with one")
	}
	want := "a connection of node n1 to the Service left zone a, to an endpoint that is not hinted for it (10.0.0.3:6443): restart it"
	if got := w.Complaint("n1", "a", "restart it"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestWatchAtRandom has datapaths that honour hints and such that do not, over
// endpoints that change. One that follows within Settle is never complained of;
// one that knows no zone is found, and never called well but by chance.
func TestWatchAtRandom(t *testing.T) {
	const runs = 1000
	wrong := 0
	for seed := range runs {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		honours := seed%2 == 0
		state := runWatch(t, rng, honours)
		switch {
		case honours && state == Ignores:
			t.Fatalf("seed %d: a datapath that honours zones is complained of", seed)
		case !honours && state == Honours:
			wrong++
		}
	}
	if wrong > runs/2*5/100 {
		t.Errorf("%d of %d that honour no zones look well in the end", wrong, runs/2)
	}
}

func runWatch(t *testing.T, rng *rand.Rand, honours bool) State {
	t.Helper()
	var w Watch
	world := three()
	old, changed := world, -time.Hour
	for now := time.Duration(0); now < 15*time.Minute; now += time.Second {
		if rng.IntN(60) == 0 {
			old, changed = world, now
			world = three()
			if i := rng.IntN(3); i > 0 {
				world[i].Ready = false
			}
		}
		w.See(now, Expect("n1", "a", world))
		if now%(30*time.Second) != 0 || !w.Ready(now) {
			continue
		}
		// The datapath goes by the old endpoints for up to Settle.
		known := world
		if now-changed < time.Duration(rng.Int64N(int64(Settle))) {
			known = old
		}
		var to []string
		for i := range known {
			if known[i].Ready && (!honours || known[i].Zone == "a") {
				to = append(to, known[i].Address)
			}
		}
		w.Note(now, now, []string{to[rng.IntN(len(to))]})
	}
	return w.State()
}

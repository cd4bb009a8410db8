package choose

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/health"
)

var ms = time.Millisecond

func query(r *rand.Rand, active []int) Query {
	return Query{
		Client: netip.MustParseAddr("192.0.2.7"), Random: r.Float64,
		Active: func(i int) int { return active[i] },
	}
}

// spread opens n connections that stay and returns how many each backend got.
func spread(t *Table, n int, change func(k int, q *Query)) []int {
	r := rand.New(rand.NewPCG(1, 2))
	active := make([]int, len(t.backends))
	for k := range n {
		q := query(r, active)
		q.Turn = uint64(k)
		if change != nil {
			change(k, &q)
		}
		if i, a := t.Pick(q); a == Use {
			active[i]++
		}
	}
	return active
}

func ready(id string) Backend { return Backend{ID: id, Grade: health.Ready, ReadySince: -1} }

func with(b Backend, change func(*Backend)) Backend {
	change(&b)
	return b
}

func TestOrderOfPreference(t *testing.T) {
	zoneA := func(b *Backend) { b.Zone = "a" }
	suspect := func(b *Backend) { b.Suspect = true }
	backup := func(b *Backend) { b.Backup = true }
	grade := func(g health.Grade) func(*Backend) { return func(b *Backend) { b.Grade = g } }
	full := func(b *Backend) { b.MaxConns = 1 }
	held := func(b *Backend) { b.Held = true }
	for _, c := range []struct {
		name     string
		backends []Backend
		panic    bool
		want     []string // in the order in which one connection tries them
	}{
		{"ready before alive", []Backend{with(ready("alive"), grade(health.Alive)), ready("ready")}, false, []string{"ready", "alive"}},
		{"a ready backend of another zone before an alive one of the own", []Backend{with(with(ready("own"), zoneA), grade(health.Alive)), ready("far")}, false, []string{"far", "own"}},
		{"own zone first", []Backend{ready("far"), with(ready("own"), zoneA)}, false, []string{"own", "far"}},
		{"not suspect before own zone", []Backend{with(with(ready("own"), zoneA), suspect), ready("far")}, false, []string{"far", "own"}},
		{"backup last in its grade", []Backend{with(ready("backup"), backup), ready("main")}, false, []string{"main", "backup"}},
		{"a sound backup before a suspect main", []Backend{with(ready("backup"), backup), with(ready("main"), suspect)}, false, []string{"backup", "main"}},
		{"a ready backup before an alive main", []Backend{with(ready("backup"), backup), with(ready("main"), grade(health.Alive))}, false, []string{"backup", "main"}},
		{"held gets none", []Backend{with(ready("held"), held), ready("open")}, false, []string{"open"}},
		{"the rest once the usable were tried", []Backend{with(ready("hung"), grade(health.Frozen)), ready("ok")}, false, []string{"ok", "hung"}},
		{"nobody usable: what answers first", []Backend{with(ready("gone"), grade(health.Unreachable)), with(ready("closed"), grade(health.Refused)), with(ready("500"), grade(health.NotReady)), with(ready("new"), grade(health.Unknown))}, false, []string{"new", "500", "closed"}},
		{"panic: the fastest first, all of them", []Backend{with(with(ready("slow"), grade(health.NotReady)), func(b *Backend) { b.RTT = 20 * ms }), with(with(ready("fast"), grade(health.Unreachable)), func(b *Backend) { b.RTT = ms })}, true, []string{"fast", "slow"}},
		{"full is passed over", []Backend{with(with(ready("full"), zoneA), full), ready("far")}, false, []string{"far"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := New(Config{Zone: "a", Panic: c.panic}, c.backends)
			active := make([]int, len(c.backends))
			for i, b := range c.backends {
				active[i] = b.MaxConns
			}
			var got []string
			q := query(rand.New(rand.NewPCG(1, 1)), active)
			for {
				i, a := table.Pick(q)
				if a != Use {
					break
				}
				got = append(got, c.backends[i].ID)
				q.Tried = append(q.Tried, i)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("tried %v, want %v", got, c.want)
			}
		})
	}
}

// An attempt under way on a usable backend is not overtaken by a worse grade.
func TestPendingAttemptsAreWaitedFor(t *testing.T) {
	notReady := with(ready("local"), func(b *Backend) { b.Grade = health.NotReady })
	alive := with(ready("alive"), func(b *Backend) { b.Grade = health.Alive })
	far := with(ready("far"), func(b *Backend) { b.RTT = 90 * ms })
	for _, c := range []struct {
		name           string
		backends       []Backend
		tried, pending []int
		want           Answer
		pick           string
	}{
		{"ready, connecting", []Backend{far, notReady, alive}, []int{0}, []int{0}, None, ""},
		{"ready, failed: the alive one", []Backend{far, notReady, alive}, []int{0}, nil, Use, "alive"},
		{"alive, connecting", []Backend{far, notReady, alive}, []int{0, 2}, []int{2}, None, ""},
		{"both failed: the rest", []Backend{far, notReady, alive}, []int{0, 2}, nil, Use, "local"},
		{"another ready one joins", []Backend{far, ready("near")}, []int{0}, []int{0}, Use, "near"},
		{"nobody usable: all are tried beside one another", []Backend{notReady, notReady}, []int{0}, []int{0}, Use, "local"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := query(rand.New(rand.NewPCG(1, 1)), make([]int, len(c.backends)))
			q.Tried, q.Pending = c.tried, c.pending
			i, a := New(Config{}, c.backends).Pick(q)
			if a != c.want || a == Use && c.backends[i].ID != c.pick {
				t.Errorf("got %d, %v; want %v %s", i, a, c.want, c.pick)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	if _, a := New(Config{}, nil).Pick(query(r, nil)); a != None {
		t.Errorf("no backends: %v, want None", a)
	}
	full := with(ready("x"), func(b *Backend) { b.MaxConns = 2 })
	if _, a := New(Config{}, []Backend{full}).Pick(query(r, []int{2})); a != Wait {
		t.Errorf("all full: %v, want Wait", a)
	}
	gone := with(ready("x"), func(b *Backend) { b.Grade = health.Unreachable })
	if _, a := New(Config{}, []Backend{gone}).Pick(query(r, []int{0})); a != None {
		t.Errorf("unreachable for certain: %v, want None, so that the client is refused at once", a)
	}
	if _, a := New(Config{Panic: true}, []Backend{gone}).Pick(query(r, []int{0})); a != Use {
		t.Errorf("unreachable in doubt: %v, want Use", a)
	}
}

func TestTheUnknownShareClients(t *testing.T) {
	unknown := with(ready("x"), func(b *Backend) { b.Grade = health.Unknown })
	table, r := New(Config{}, []Backend{unknown, unknown, unknown}), rand.New(rand.NewPCG(1, 2))
	got := make([]int, 3)
	for range 300 {
		i, _ := table.Pick(query(r, make([]int, 3)))
		got[i]++
	}
	if slices.Min(got) < 70 {
		t.Errorf("spread %v, want about 100 each", got)
	}
}

func TestLeastConnectionsSpreads(t *testing.T) {
	near := func(rtt time.Duration) Backend { return with(ready(rtt.String()), func(b *Backend) { b.RTT = rtt }) }
	t.Run("evenly among near ones", func(t *testing.T) {
		got := spread(New(Config{}, []Backend{near(200 * time.Microsecond), near(400 * time.Microsecond), near(100 * time.Microsecond)}), 300, nil)
		for _, n := range got {
			if n < 85 || n > 115 {
				t.Errorf("spread %v, want about 100 each", got)
			}
		}
	})
	t.Run("softly towards the near one", func(t *testing.T) {
		got := spread(New(Config{}, []Backend{near(200 * time.Microsecond), near(20 * ms)}), 1000, nil)
		if got[0] < 850 || got[1] < 50 {
			t.Errorf("spread %v, want about 10 to 1", got)
		}
	})
	t.Run("by chance when idle", func(t *testing.T) {
		table, r := New(Config{}, []Backend{near(200 * time.Microsecond), near(400 * time.Microsecond)}), rand.New(rand.NewPCG(1, 2))
		got := []int{0, 0}
		for range 1000 { // each ends before the next begins
			i, _ := table.Pick(query(r, []int{0, 0}))
			got[i]++
		}
		if got[0] < 400 || got[1] < 400 {
			t.Errorf("spread %v, want about halves", got)
		}
	})
	t.Run("by weight", func(t *testing.T) {
		heavy := with(ready("heavy"), func(b *Backend) { b.Weight = 3 })
		got := spread(New(Config{}, []Backend{heavy, ready("light")}), 400, nil)
		if got[0] < 280 || got[0] > 320 {
			t.Errorf("spread %v, want about 300 to 100", got)
		}
	})
	t.Run("slowly to a returning one", func(t *testing.T) {
		back := with(ready("back"), func(b *Backend) { b.ReadySince = 0 })
		table := New(Config{SlowStart: 30 * time.Second}, []Backend{back, ready("old")})
		got := spread(table, 110, nil)
		if got[0] < 1 || got[0] > 20 {
			t.Errorf("spread at once %v, want about 10 to 100", got)
		}
		got = spread(table, 100, func(_ int, q *Query) { q.Now = 30 * time.Second })
		if got[0] < 45 || got[0] > 55 {
			t.Errorf("spread when grown %v, want halves", got)
		}
	})
}

func TestRoundRobinTakesTurns(t *testing.T) {
	heavy := with(ready("b"), func(b *Backend) { b.Weight = 2 })
	table := New(Config{Policy: RoundRobin}, []Backend{ready("a"), heavy, ready("c")})
	got := spread(table, 400, nil)
	if !slices.Equal(got, []int{100, 200, 100}) {
		t.Errorf("spread %v, want exactly 100, 200, 100", got)
	}
	huge := with(ready("huge"), func(b *Backend) { b.Weight = 1 << 40 })
	if n := len(New(Config{Policy: RoundRobin}, []Backend{huge, ready("a")}).tiers[0].turns); n > 2*mostTurns {
		t.Errorf("a cycle of %d turns", n)
	}
}

func TestSourceSticksAndMovesLittle(t *testing.T) {
	pick := func(table *Table, client int) string {
		q := query(nil, make([]int, 4))
		q.Client = netip.AddrFrom4([4]byte{10, 0, byte(client >> 8), byte(client)})
		i, a := table.Pick(q)
		if a != Use {
			t.Fatalf("client %d: answer %v", client, a)
		}
		return table.backends[i].ID
	}
	four := New(Config{Policy: Source}, []Backend{ready("a"), ready("b"), ready("c"), ready("d")})
	three := New(Config{Policy: Source}, []Backend{ready("a"), ready("b"), ready("d")})
	count := map[string]int{}
	for client := range 2000 {
		before, after := pick(four, client), pick(three, client)
		count[before]++
		if before != "c" && before != after {
			t.Errorf("client %d moved from %s to %s although %s is still there", client, before, after, before)
		}
	}
	for id, n := range count {
		if n < 400 || n > 600 {
			t.Errorf("%s got %d of 2000 clients, want about 500", id, n)
		}
	}
}

// TestRandomTables holds the guarantees against random tables and queries.
func TestRandomTables(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for n := range 50_000 {
		table, active := randomTable(r)
		if err := holds(table, active, r); err != nil {
			t.Fatalf("seed %d, table %d: %v\n%+v\nactive %v", seed, n, err, table.backends, active)
		}
	}
}

func randomTable(r *rand.Rand) (*Table, []int) {
	n := 1 + r.IntN(6)
	backends, active := make([]Backend, n), make([]int, n)
	for i := range backends {
		backends[i] = Backend{
			ID: string(rune('a' + i)), Zone: string(rune('a' + r.IntN(3))), Weight: r.IntN(4), Backup: r.IntN(4) == 0,
			Grade: health.Grade(r.IntN(int(health.Ready) + 1)), Suspect: r.IntN(3) == 0, Held: r.IntN(6) == 0,
			RTT: time.Duration(r.IntN(50)) * ms, ReadySince: time.Duration(r.IntN(40)-5) * time.Second, MaxConns: r.IntN(3) * 5,
		}
		active[i] = r.IntN(8)
	}
	policy := []Policy{LeastConn, RoundRobin, Source}[r.IntN(3)]
	return New(Config{Policy: policy, Zone: []string{"", "a", "x"}[r.IntN(3)], SlowStart: 30 * time.Second, Panic: r.IntN(4) == 0}, backends), active
}

// holds follows one connection through all its attempts.
func holds(table *Table, active []int, r *rand.Rand) error {
	q := query(r, active)
	q.Now, q.Turn = time.Minute, r.Uint64()
	for {
		i, a := table.Pick(q)
		if err := judge(table, q, i, a); err != nil {
			return fmt.Errorf("after %v: %w", q.Tried, err)
		}
		if a != Use {
			if len(q.Pending) == 0 {
				return nil
			}
			q.Pending = q.Pending[1:] // one fails; ask again
			continue
		}
		q.Tried = append(q.Tried, i)
		if r.IntN(2) == 0 {
			q.Pending = append(q.Pending, i)
		}
	}
}

// judge is the dumb twin: what may be picked, said without tiers.
func judge(table *Table, q Query, i int, a Answer) error {
	// Of each grade: is one free to pick, full, or under way?
	var free, full, pending [health.Ready + 1]bool
	worth := false
	for k, b := range table.backends {
		switch tried := slices.Contains(q.Tried, k); {
		case b.Held:
		case slices.Contains(q.Pending, k):
			pending[b.Grade] = true
		case tried:
		case b.Grade.Usable() && b.MaxConns > 0 && q.Active(k) >= b.MaxConns:
			full[b.Grade] = true
		case b.Grade.Usable():
			free[b.Grade] = true
		default:
			worth = worth || b.Grade != health.Unreachable || table.cfg.Panic
		}
	}
	if a == Use && (table.backends[i].Held || slices.Contains(q.Tried, i)) {
		return fmt.Errorf("picked %d, which is held or was tried", i)
	}
	for _, g := range []health.Grade{health.Ready, health.Alive} {
		switch {
		case free[g] && (a != Use || table.backends[i].Grade != g):
			return fmt.Errorf("answered %v %d although one is %v", a, i, g)
		case free[g]:
			return nil
		case full[g] && a != Wait:
			return fmt.Errorf("answered %v although those that are %v are full", a, g)
		case !full[g] && pending[g] && a != None:
			return fmt.Errorf("answered %v although an attempt is under way on one that is %v", a, g)
		case full[g] || pending[g]:
			return nil
		}
	}
	if worth != (a == Use) {
		return fmt.Errorf("answered %v although worth a try is %v", a, worth)
	}
	return nil
}

func TestLifeguard(t *testing.T) {
	type step struct {
		at     time.Duration
		usable int
		want   bool
	}
	s := time.Second
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"all at once is doubted for a while", []step{{0, 3, false}, {60 * s, 3, false}, {61 * s, 1, false}, {62 * s, 0, true}, {71 * s, 0, true}, {72 * s, 0, false}, {80 * s, 0, false}}},
		{"one after the other is believed", []step{{0, 2, false}, {10 * s, 1, false}, {70 * s, 0, false}}},
		{"a single backend is believed", []step{{0, 1, false}, {10 * s, 0, false}}},
		{"nobody ever usable is believed", []step{{0, 0, false}, {5 * s, 0, false}}},
		{"a return ends doubt", []step{{0, 2, false}, {s, 0, true}, {2 * s, 1, false}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l Lifeguard
			for _, st := range c.steps {
				if got := l.Observe(st.at, st.usable); got != st.want {
					t.Errorf("at %s with %d usable: doubt %v, want %v", st.at, st.usable, got, st.want)
				}
			}
		})
	}
}

func TestSurplus(t *testing.T) {
	inA := func(b *Backend) { b.Zone = "a" }
	down := func(b *Backend) { b.Grade = health.Frozen }
	for _, c := range []struct {
		name     string
		backends []Backend
		active   []int
		want     []int
	}{
		{"even", []Backend{ready("x"), ready("y")}, []int{50, 52}, []int{0, 0}},
		{"after a failback", []Backend{ready("x"), ready("y"), ready("z")}, []int{0, 60, 60}, []int{0, 16, 16}},
		{"back to the own zone", []Backend{with(ready("own"), inA), ready("far")}, []int{0, 20}, []int{0, 20}},
		{"one that is down has none", []Backend{with(ready("x"), down), ready("y")}, []int{9, 20}, []int{0, 0}},
		{"nobody", nil, nil, []int{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := New(Config{Zone: "a"}, c.backends)
			got := table.Surplus(time.Minute, func(i int) int { return c.active[i] })
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

package main

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestReplaceKeepsTheOrder(t *testing.T) {
	name := func(names ...string) []Row {
		var rows []Row
		for _, n := range names {
			rows = append(rows, Row{Name: n})
		}
		return rows
	}
	before := name("leader-x", "balance-bulk-1", "balance-cpu-per-gb", "balance-short", "soak-y")
	for _, c := range []struct {
		part     string
		measured []Row
		want     string
	}{
		{"balance", name("balance-a", "balance-b"), "leader-x balance-a balance-b soak-y"},
		{"balance-bulk", name("balance-bulk-1", "balance-bulk-4", "balance-cpu-per-gb"), "leader-x balance-bulk-1 balance-bulk-4 balance-cpu-per-gb balance-short soak-y"},
		{"rest", name("rest-a"), "leader-x balance-bulk-1 balance-cpu-per-gb balance-short soak-y rest-a"},
		{"leader", nil, "leader-x balance-bulk-1 balance-cpu-per-gb balance-short soak-y"},
	} {
		var got []string
		for _, r := range replace(slices.Clone(before), c.part, c.measured) {
			got = append(got, r.Name)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: got  %s\nwant %s", c.part, s, c.want)
		}
	}
}

func TestBars(t *testing.T) {
	two := 2.0
	for _, c := range []struct {
		row   Row
		holds bool
		limit string
	}{
		{atMost("a", "ms", 2, 2, ""), true, "2 ms"},
		{atMost("a", "ms", 2.1, 2, ""), false, "2 ms"},
		{atLeast("a", "/s", 2, 2, ""), true, "≥ 2 /s"},
		{atLeast("a", "/s", 1.9, 2, ""), false, "≥ 2 /s"},
		{within("a", "ms", &two, 2, ""), true, "2 ms"},
		{within("a", "ms", nil, 2, ""), false, "2 ms"},
		{Row{Holds: true}, true, "-"},
	} {
		if c.row.Holds != c.holds || c.row.limit() != c.limit {
			t.Errorf("%+v: holds %t, limit %q", c, c.row.Holds, c.row.limit())
		}
	}
}

func TestJudge(t *testing.T) {
	at := time.Now()
	ms := func(n int) time.Time { return at.Add(time.Duration(n) * time.Millisecond) }
	broken := errors.New("reset")
	try := func(start, end, from int, err error) attempt {
		return attempt{start: ms(start), end: ms(end), from: from, err: err}
	}
	for _, c := range []struct {
		name     string
		attempts []attempt
		moved    float64 // -1: never
		failed   int
		early    int
	}{
		{"nothing happens", []attempt{try(10, 20, 2, nil)}, 0, 0, 0},
		{"over before the fault", []attempt{try(-20, -10, 1, broken)}, 0, 0, 0},
		{"under way at the fault, not a word heard", []attempt{try(-10, 20, 0, broken)}, 0, 0, 1},
		{"under way at the fault, and answering", []attempt{{start: ms(-10), first: ms(-5), end: ms(20), err: broken}}, 0, 0, 0},
		{"the victim answers", []attempt{try(10, 20, 1, nil), try(700, 710, 1, nil), try(800, 810, 2, nil)}, 700, 0, 0},
		{"one is slow", []attempt{try(300, 800, 2, nil), try(310, 700, 2, nil)}, 300, 0, 0},
		{"the machine is slow", []attempt{try(4700, 5300, 2, nil)}, 0, 0, 0},
		{"some fail", []attempt{try(1400, 1500, 0, broken), try(1600, 1700, 0, broken)}, 1600, 1, 1},
		{"trouble to the end", []attempt{try(9000, 9100, 0, broken)}, -1, 1, 0},
	} {
		o := judge(c.attempts, []moment{{ms(5000), ms(5200)}}, 1, at, ms(10000))
		moved := -1.0
		if o.moved != nil {
			moved = *o.moved
		}
		if moved != c.moved || o.failed != c.failed || o.early != c.early {
			t.Errorf("%s: moved %g, failed %d late and %d early", c.name, moved, o.failed, o.early)
		}
	}
}

func TestCountOfDeaths(t *testing.T) {
	at := time.Now()
	ms := func(n int) time.Time { return at.Add(time.Duration(n) * time.Millisecond) }
	died := []moment{{ms(0), ms(2)}}
	broken := errors.New("reset")
	got := count([]attempt{
		{start: ms(-5), first: ms(-3), end: ms(-1), from: 1},
		{start: ms(-5), first: ms(-1), end: ms(3), err: broken},     // had heard something
		{start: ms(-5), end: ms(3), err: broken},                    // had not
		{start: ms(50), first: ms(51), end: ms(60), err: broken},    // nobody died then
		{start: ms(-90), first: ms(-80), end: ms(-70), err: broken}, // nor here
	}, died)
	if got.all != 5 || got.excused != 1 || got.failed != 3 || got.slowest != 20*time.Millisecond {
		t.Errorf("got %+v", got)
	}
}

func TestStatisticsOfHAProxy(t *testing.T) {
	n, err := countDown("# pxname,svname,chkdown,note,\nk,FRONTEND,,x,\nk,b1,2,x,\nk,b2,1,x,\nk,BACKEND,3,x,\n\n")
	if err != nil || n != 3 {
		t.Errorf("%d transitions: %v", n, err)
	}
	if _, err := countDown(""); err == nil {
		t.Error("no complaint about an empty table")
	}
}

// A crew against a stand-in counts what it does, in a fraction of a second.
func TestCrew(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serveIdle(l) }()
	t.Cleanup(func() {
		_ = l.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	to := netip.MustParseAddrPort(l.Addr().String())
	for name, do := range map[string]job{"short": shortJob, "requests": requestJob, "stream": streamJob} {
		s, err := newCrew(to, 2).measure(t.Context(), do, 100*time.Millisecond, 1)
		if err != nil || s.done == 0 || s.seconds < 0.1 {
			t.Errorf("%s: %+v: %v", name, s, err)
		}
	}
	all, err := paced(t.Context(), to, 200*time.Millisecond)
	if err != nil || !slices.IsSorted(all) || len(all) < 100 {
		t.Errorf("%d latencies: %v", len(all), err)
	}
}

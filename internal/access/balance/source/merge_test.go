package source

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// b reads "10.0.0.1 zone=a backup demoted …" for tests; the port is 6443.
func b(text string) Backend {
	f := strings.Fields(text)
	one := Backend{Network: "tcp", Address: f[0] + ":6443", Serving: true}
	for _, word := range f[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "zone":
			one.Zone = value
		case "node":
			one.Node = value
		case "weight":
			_, _ = fmt.Sscan(value, &one.Weight)
		case "backup":
			one.Backup = true
		case "demoted":
			one.Demoted = true
		case "failing":
			one.Serving = false
		case "terminating":
			one.Terminating = true
		case "by":
			one.Source = strings.NewReplacer("+", ", ", "_", " ").Replace(value)
		default:
			panic(word)
		}
	}
	return one
}

func bs(texts ...string) (list []Backend) {
	for _, t := range texts {
		list = append(list, b(t))
	}
	return list
}

func TestMerge(t *testing.T) {
	static := func(texts ...string) Listed { return Listed{"static", Static, bs(texts...)} }
	slicesOf := func(texts ...string) Listed { return Listed{"slices", Confirmed, bs(texts...)} }
	dns := func(texts ...string) Listed { return Listed{"dns", Confirmed, bs(texts...)} }
	old := func(texts ...string) Listed { return Listed{"slices", LastGood, bs(texts...)} }
	for _, c := range []struct {
		name     string
		lists    []Listed
		previous []Backend
		want     []Backend
	}{
		{"nothing at all", nil, nil, nil},
		{"static alone", []Listed{static("10.0.0.2", "10.0.0.1 zone=a")}, nil, bs("10.0.0.1 zone=a by=static", "10.0.0.2 by=static")},
		{
			"confirmed by discovery; facts of both",
			[]Listed{static("10.0.0.1 weight=2"), slicesOf("10.0.0.1 zone=a node=n1 weight=9")}, nil,
			bs("10.0.0.1 zone=a node=n1 weight=2 by=static+slices"),
		},
		{"settings win", []Listed{static("10.0.0.1 zone=mine"), slicesOf("10.0.0.1 zone=theirs")}, nil, bs("10.0.0.1 zone=mine by=static+slices")},
		{"demoted when discovery lists others", []Listed{static("10.0.0.9"), slicesOf("10.0.0.1")}, nil, bs("10.0.0.1 by=slices", "10.0.0.9 demoted by=static")},
		{"any discovery confirms", []Listed{static("10.0.0.9"), slicesOf("10.0.0.1"), dns("10.0.0.9")}, nil, bs("10.0.0.1 by=slices", "10.0.0.9 by=static+dns")},
		{"an empty answer demotes nothing", []Listed{static("10.0.0.9"), slicesOf()}, nil, bs("10.0.0.9 by=static")},
		{"last good demotes nothing", []Listed{static("10.0.0.9"), old("10.0.0.1")}, nil, bs("10.0.0.1 by=last_good", "10.0.0.9 by=static")},
		{"last good saves from demotion", []Listed{static("10.0.0.9"), old("10.0.0.9"), dns("10.0.0.1")}, nil, bs("10.0.0.1 by=dns", "10.0.0.9 by=static")},
		{"not serving is listed", []Listed{slicesOf("10.0.0.1 failing", "10.0.0.2 terminating")}, nil, bs("10.0.0.1 failing by=slices", "10.0.0.2 terminating by=slices")},
		{"terminating and not serving is not", []Listed{slicesOf("10.0.0.1 failing terminating", "10.0.0.2")}, nil, bs("10.0.0.2 by=slices")},
		{"but static keeps it, demoted", []Listed{static("10.0.0.1"), slicesOf("10.0.0.1 failing terminating", "10.0.0.2")}, nil, bs("10.0.0.1 demoted by=static", "10.0.0.2 by=slices")},
		{"backup of any", []Listed{static("10.0.0.1"), dns("10.0.0.1 backup")}, nil, bs("10.0.0.1 backup by=static+dns")},
		{"previous stays", []Listed{slicesOf()}, bs("10.0.0.1 by=slices demoted"), bs("10.0.0.1 by=last_good")},
		{"previous stays when all terminate", []Listed{slicesOf("10.0.0.1 failing terminating")}, bs("10.0.0.1 by=slices"), bs("10.0.0.1 by=last_good")},
		{"previous is replaced", []Listed{slicesOf("10.0.0.2")}, bs("10.0.0.1 by=slices"), bs("10.0.0.2 by=slices")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Merge(c.lists, c.previous); !slices.Equal(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// randomLists are up to four sources over few addresses, so that they overlap.
func randomLists(r *rand.Rand) []Listed {
	var lists []Listed
	for i := range r.IntN(5) {
		l := Listed{fmt.Sprintf("source %d", i), Standing(r.IntN(3)), nil}
		for n := range 6 {
			if r.IntN(3) == 0 {
				one := b(fmt.Sprintf("10.0.0.%d", n))
				one.Serving, one.Terminating, one.Backup, one.Weight = r.IntN(3) > 0, r.IntN(3) == 0, r.IntN(4) == 0, r.IntN(3)
				one.Demoted, one.Source = r.IntN(2) == 0, "nonsense"
				l.Backends = append(l.Backends, one)
			}
		}
		lists = append(lists, l)
	}
	return lists
}

func TestMergeInvariants(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var previous []Backend
	for range 20000 {
		lists := randomLists(r)
		got := Merge(lists, previous)
		checkMerge(t, lists, previous, got)
		for _, l := range lists {
			r.Shuffle(len(l.Backends), func(i, j int) { l.Backends[i], l.Backends[j] = l.Backends[j], l.Backends[i] })
		}
		if again := Merge(lists, previous); !slices.Equal(got, again) {
			t.Fatalf("depends on the order within a list:\n%+v\n%+v", got, again)
		}
		if t.Failed() {
			t.Fatalf("seed %d: %+v\n%+v", seed, lists, got)
		}
		previous = got
	}
}

func checkMerge(t *testing.T, lists []Listed, previous, got []Backend) {
	t.Helper()
	if len(got) == 0 && len(previous) > 0 {
		t.Error("empty though there was a list")
	}
	if !slices.IsSortedFunc(got, func(a, b Backend) int { return strings.Compare(a.ID(), b.ID()) }) {
		t.Error("not sorted")
	}
	want, static, discovered := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, l := range lists {
		for _, b := range l.Backends {
			if l.Standing == Confirmed && b.Terminating && !b.Serving {
				continue
			}
			want[b.ID()] = true
			if l.Standing == Static {
				static[b.ID()] = true
			} else {
				discovered[b.ID()] = true
			}
		}
	}
	ids, undemoted := map[string]bool{}, 0
	for _, b := range got {
		if ids[b.ID()] {
			t.Errorf("%s twice", b.ID())
		}
		ids[b.ID()] = true
		if !b.Demoted {
			undemoted++
		} else if !static[b.ID()] || discovered[b.ID()] {
			t.Errorf("%s demoted though a discovery lists it", b.ID())
		}
		if b.Source == "" || strings.Contains(b.Source, "nonsense") {
			t.Errorf("%s by %q", b.ID(), b.Source)
		}
		if len(want) > 0 && !want[b.ID()] {
			t.Errorf("%s was not listed", b.ID())
		}
	}
	for id := range want {
		if !ids[id] {
			t.Errorf("%s lost", id)
		}
	}
	if len(got) > 0 && undemoted == 0 {
		t.Error("all demoted")
	}
}

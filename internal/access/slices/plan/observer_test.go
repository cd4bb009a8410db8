package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

const second = time.Second

// cluster renews Leases of nodes, and shows them to an observer.
type cluster struct {
	t       *testing.T
	o       *Observer
	now     time.Duration
	renewed int
	leases  map[string]*Lease
	combo   *Combined
	slices  []Slice
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, o: NewObserver(Default()), leases: map[string]*Lease{}}
	for _, n := range []string{"1", "2", "3"} {
		c.leases["agent-"+n] = &Lease{Role: Agent, Name: "agent-" + n, Node: n, Holder: n, Identity: "id-" + n}
		c.leases["id-"+n] = &Lease{Role: Identity, Name: "id-" + n}
		c.slices = append(c.slices, endpoint(n, n))
	}
	c.renew("agent-1", "agent-2", "agent-3", "id-1", "id-2", "id-3")
	return c
}

// renew renews and shows.
func (c *cluster) renew(names ...string) {
	for _, n := range names {
		c.renewed++
		c.leases[n].Token = fmt.Sprint(c.renewed)
	}
	c.see()
}

func (c *cluster) see() {
	v := View{Slices: c.slices, Combined: c.combo}
	for _, n := range slices.Sorted(keys(c.leases)) {
		v.Leases = append(v.Leases, *c.leases[n])
	}
	self := agent("1", "1", Ready)
	c.o.See(c.now, &self, &v)
}

// pass lets time go by in steps of 10 s, renewing.
func (c *cluster) pass(rounds int, names ...string) {
	for range rounds {
		c.now += 10 * second
		c.renew(names...)
	}
}

func (c *cluster) lapsed(want ...string) {
	c.t.Helper()
	var got []string
	for _, l := range c.o.Facts(c.now).Lapsed {
		got = append(got, l.Node)
	}
	if !slices.Equal(got, want) {
		c.t.Errorf("at %s: lapsed %v, want %v", c.now, got, want)
	}
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func TestLapse(t *testing.T) {
	t.Run("both Leases stand still", func(t *testing.T) {
		c := newCluster(t)
		c.pass(3, "agent-1", "id-1", "agent-2", "id-2", "agent-3", "id-3")
		c.pass(2, "agent-1", "id-1", "agent-2", "id-2")
		c.lapsed()
		if got := c.o.Facts(c.now); len(got.Quiet) != 1 || got.Quiet[0].Node != "3" || got.Due != 10*second {
			t.Errorf("%+v", got)
		}
		c.now += 9 * second
		c.renew("agent-1", "id-1")
		c.lapsed()
		c.now += second
		c.lapsed("3")
		l := c.o.Facts(c.now).Lapsed[0]
		if l.AgentToken != c.leases["agent-3"].Token || l.IdentityToken != c.leases["id-3"].Token || l.For != 30*second {
			t.Errorf("%+v", l)
		}
		c.renew("agent-3")
		c.lapsed()
	})
	for _, half := range []string{"agent-3", "id-3"} {
		t.Run("only "+half+" is renewed", func(t *testing.T) {
			c := newCluster(t)
			c.pass(20, "agent-1", "id-1", "agent-2", "id-2", half)
			c.lapsed()
		})
	}
	t.Run("an agent that names no apiserver", func(t *testing.T) {
		c := newCluster(t)
		c.leases["agent-3"].Identity = ""
		c.pass(20, "agent-1", "id-1", "agent-2", "id-2")
		c.lapsed()
	})
	t.Run("identity Lease collected", func(t *testing.T) {
		c := newCluster(t)
		c.pass(2, "agent-1", "id-1")
		delete(c.leases, "id-3")
		delete(c.leases, "agent-3")
		c.pass(2, "agent-1", "id-1", "agent-2", "id-2")
		c.lapsed("3")
		if l := c.o.Facts(c.now).Lapsed[0]; l.AgentToken+l.IdentityToken != "" {
			t.Errorf("%+v", l)
		}
		c.slices = c.slices[:2]
		c.see()
		c.lapsed()
	})
	t.Run("identity Lease never seen", func(t *testing.T) {
		c := newCluster(t)
		delete(c.leases, "id-3")
		c.see()
		c.pass(3, "agent-1", "id-1", "agent-2", "id-2")
		c.lapsed() // the yardstick is younger
		c.pass(1, "agent-1", "id-1", "agent-2", "id-2")
		c.lapsed("3")
	})
	t.Run("the own Lease did not arrive for 13 s", func(t *testing.T) {
		c := newCluster(t)
		c.pass(3, "agent-1", "id-1", "agent-2", "id-2")
		c.now += 13 * second
		c.renew("id-1")
		c.lapsed()
		c.renew("agent-1")
		c.lapsed()
		c.pass(2, "agent-1", "id-1", "agent-2", "id-2")
		c.lapsed()
		c.pass(1, "agent-1", "id-1", "agent-2", "id-2")
		c.lapsed("3")
	})
	t.Run("no identity Lease arrived for 13 s", func(t *testing.T) {
		c := newCluster(t)
		c.pass(1, "agent-1", "id-1", "agent-2", "id-2", "agent-3", "id-3")
		c.pass(4, "agent-1", "agent-2")
		c.lapsed()
	})
	t.Run("its endpoint turned ready", func(t *testing.T) {
		c := newCluster(t)
		c.pass(2, "agent-1", "id-1", "agent-2", "id-2")
		c.slices[2].ReadyFrom = "7" // it was unready, between two looks
		c.pass(1, "agent-1", "id-1", "agent-2", "id-2")
		c.pass(2, "agent-1", "id-1", "agent-2", "id-2")
		c.lapsed()
		c.pass(1, "agent-1", "id-1", "agent-2", "id-2")
		c.lapsed("3")
		if got := c.o.Facts(c.now).Lapsed[0].Ready; !slices.Equal(got, []Standing{{"kubernetes-3", "7"}}) {
			t.Error(got)
		}
	})
	t.Run("somebody else renews the own Lease", func(t *testing.T) {
		c := newCluster(t)
		c.leases["agent-1"].Holder = "x"
		c.pass(4, "agent-1", "id-1", "agent-2", "id-2")
		c.lapsed()
	})
}

func TestSteady(t *testing.T) {
	c := newCluster(t)
	c.now += 9 * second
	c.see()
	if f := c.o.Facts(c.now); len(f.Steady) != 0 || f.Due > second {
		t.Errorf("%+v", f)
	}
	c.slices[1].Ready = false
	c.see()
	c.slices[1].Ready = true
	c.now += second
	c.see()
	if got := c.o.Facts(c.now).Steady; !slices.Equal(got, []string{"kubernetes-1", "kubernetes-3"}) {
		t.Error(got)
	}
}

func TestRival(t *testing.T) {
	c := newCluster(t)
	c.leases["agent-1"].Holder = "other"
	c.renew("agent-1")
	if f := c.o.Facts(c.now); f.Rival != "other" || f.Rivalry {
		t.Errorf("just seen: %+v", f)
	}
	c.pass(1, "agent-1")
	if f := c.o.Facts(c.now); f.Rival != "other" || !f.Rivalry {
		t.Errorf("renews: %+v", f)
	}
	c.now += 12 * second
	if f := c.o.Facts(c.now); f.Rival != "" {
		t.Errorf("renews no more: %+v", f)
	}
	c.leases["agent-1"].Holder = "1"
	c.renew("agent-1")
	if f := c.o.Facts(c.now); f.Rival != "" {
		t.Errorf("ours: %+v", f)
	}
}

func TestReconciler(t *testing.T) {
	c := newCluster(t)
	put := func(version, probe string, owner Owner) {
		c.combo = &Combined{Version: version, Probe: probe, Owner: owner}
		c.see()
	}
	is := func(want Phase) {
		t.Helper()
		if got := c.o.Facts(c.now); got.Phase != want {
			t.Errorf("at %s: %s, want %s", c.now, got.Phase, want)
		}
	}
	wait := func(d time.Duration) { c.now += d; c.see() }
	is(Absent)
	put("1", "", Reconciler) // somebody made it while we looked
	is(Active)
	wait(15 * second)
	is(Unprobed)
	put("2", "1", Reconciler)
	wait(24 * second)
	is(Probing)
	put("3", "1", Reconciler) // touched by somebody: from the start
	wait(24 * second)
	is(Probing)
	wait(second)
	is(Dormant)
	put("4", "", Reconciler) // erased after all
	is(Active)
	wait(59 * second)
	is(Active)
	wait(second)
	is(Unprobed)
	put("5", "1", Reconciler)
	wait(25 * second)
	is(Dormant)
	put("6", "", Ours)
	is(TakenOver)
	put("7", "", Reconciler)
	is(Active)
	put("8", "", Foreign)
	is(Occupied)
	c.combo = nil
	c.see()
	is(Absent)

	fresh := newCluster(t)
	fresh.o = NewObserver(Default())
	fresh.combo = &Combined{Version: "9", Owner: Reconciler}
	fresh.see()
	if got := fresh.o.Facts(0).Phase; got != Unprobed {
		t.Errorf("at first sight: %s", got)
	}
}

package e2e

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// withFaults loses apiservers one way after the other where no reconciler runs, and
// watches agents at rest in between.
func withFaults(t *testing.T) {
	z := startZoned(t, "none")
	z.publish()
	z.step("an apiserver freezes", func() { z.loses("freezes") })
	z.step("an apiserver is killed", func() { z.loses("killed") })
	z.step("rests", z.rests)
	z.step("the last one stays", z.lastStays)
	z.step("a site is cut off from another", z.split)
}

// publish starts the agents where no reconciler runs, and waits until all is as it
// shall be.
func (z *zoned) publish() {
	z.t.Helper()
	for _, site := range sites {
		z.run(site)
	}
	z.await("own slices", "c", 30*time.Second, calm)
	z.onlooker = z.watch("c")
	z.awaitOlder("the older Endpoints", "c", 20*time.Second, sites...)
	z.until("the short Lease is given back", 20*time.Second, func() error {
		for _, site := range sites {
			if s, err := z.status(site); err != nil || !s.Taken || len(s.Combined) != len(sites) || len(s.Problems) > 0 {
				return fmt.Errorf("agent %s: taken over: %t, %v, %+v, %v", site, s.Taken, s.Combined, s.Problems, err)
			}
		}
		return nil
	})
	z.onlooker.demandZones(true)
}

// mostFrozen is how long a frozen apiserver may stay in its zone's endpoints.
const mostFrozen = 4 * time.Second

// loses takes b's apiserver away and brings it back.
func (z *zoned) loses(how string) {
	a, o := z.apiserver("b"), z.onlooker
	begun := time.Now()
	if how == "freezes" {
		if err := a.Child().Signal(syscall.SIGSTOP); err != nil {
			z.t.Fatal(err)
		}
	} else if err := a.Kill(z.t.Context()); err != nil {
		z.t.Fatal(err)
	}
	z.await("the witness adopts", "c", 20*time.Second, map[string]string{"a": "ready [a]", "b": "unready [b]", "c": "ready [b c]"})
	out, adopted := o.saw(z, begun, z.sliceName("b"), "unready"), o.saw(z, begun, z.sliceName("c"), "ready [b c]")
	if adopted.After(out) {
		z.t.Errorf("adopted %s after the endpoint turned unready", adopted.Sub(out))
	}
	z.awaitOlder("the older Endpoints follow", "c", 5*time.Second, "a", "c")
	z.t.Logf("%s: out after %s, adopted after %s", how, out.Sub(begun), adopted.Sub(begun))
	if took := out.Sub(begun); took > mostFrozen {
		z.t.Errorf("out of the endpoints after %s, want at most %s", took, mostFrozen)
	}
	begun = time.Now()
	if how == "freezes" {
		if err := a.Child().Signal(syscall.SIGCONT); err != nil {
			z.t.Fatal(err)
		}
	} else if err := a.Start(z.within(60 * time.Second)); err != nil {
		z.t.Fatal(err)
	}
	z.await("its return", "c", 40*time.Second, calm)
	back, given := o.saw(z, begun, z.sliceName("b"), "ready [b]"), o.saw(z, begun, z.sliceName("c"), "ready [c]")
	if d, want := given.Sub(back), z.timers.giveBack; d < want-time.Second || d > want+4*time.Second {
		z.t.Errorf("given back %s after the return, want %s", d, want)
	}
	z.until("the slice kubernetes follows", 10*time.Second, func() error {
		all, err := z.slices("c")
		if err != nil {
			return err
		}
		for _, e := range all["kubernetes"].Endpoints {
			if !isReady(&e) {
				return fmt.Errorf("%v is not ready there", e.Addresses)
			}
		}
		return nil
	})
	z.awaitOlder("the older Endpoints are whole again", "c", 10*time.Second, sites...)
}

// lastStays lets one apiserver after the other seem unwell to its agent, while
// the API goes on: the last endpoint stays ready, and serves all zones.
func (z *zoned) lastStays() {
	blind := func(site string) {
		z.endAgents(site)
		z.run(site, "--apiserver=https://127.0.0.1:1")
	}
	blind("c")
	z.await("c is out, and somebody adopts it", "a", 20*time.Second, map[string]string{"c": "unready [c]"})
	blind("a")
	z.await("b serves all", "a", 20*time.Second, map[string]string{"a": "unready [a]", "b": "ready [a b c]", "c": "unready [c]"})
	blind("b")
	z.awaitProblem("b", "last-ready", true, 20*time.Second)
	pauseFor(z.t.Context(), 3*time.Second)
	z.await("b stays", "a", time.Second, map[string]string{"a": "unready [a]", "b": "ready [a b c]", "c": "unready [c]"})
	z.endAgents(sites...)
	for _, site := range sites {
		z.run(site)
	}
	z.await("all is well again", "a", 40*time.Second, calm)
}

// split cuts a from b with the leader of etcd in a: b's apiserver loses its
// quorum, and its agent reaches the API at c alone. It is told to let a adopt
// first, which b's clients do not reach.
func (z *zoned) split() {
	z.endAgents("b")
	z.run("b", "--witness=a")
	z.agentIsBack("b")
	z.lead("a")
	begun := time.Now()
	if err := z.lab.Cut(z.within(20*time.Second), lab.Cut{From: "a", To: "b"}); err != nil {
		z.t.Fatal(err)
	}
	z.await("whom b reaches adopts", "c", 30*time.Second, map[string]string{"a": "ready [a]", "b": "unready [b]", "c": "ready [b c]"})
	out := z.onlooker.saw(z, begun, z.sliceName("b"), "unready")
	z.t.Logf("split: out %s after the order to cut", out.Sub(begun))
	if err := z.lab.Heal(z.within(20 * time.Second)); err != nil {
		z.t.Fatal(err)
	}
	z.await("healed", "c", 60*time.Second, calm)
}

// agentIsBack waits until an agent that was started finds its apiserver ready, and
// all is as it shall be.
func (z *zoned) agentIsBack(site string) {
	z.t.Helper()
	z.until("the agent is back", 30*time.Second, func() error {
		s, err := z.status(site)
		if err == nil && s.Apiserver.Health != "ready" {
			err = errors.New(s.Apiserver.Health)
		}
		return err
	})
	z.await("all is well with it", "c", 30*time.Second, calm)
}

// rests watches agents that have nothing to do: a renewal of a Lease in 10 s,
// and no other write.
func (z *zoned) rests() {
	pauseFor(z.t.Context(), 2*time.Second) // the last Lease is being given back
	names := []string{"holdfast-slices"}
	for _, site := range sites {
		names = append(names, "holdfast-slices-"+z.node(site))
	}
	before := z.onlooker.written()
	versions, renewals := map[string]string{}, map[string]int{}
	for begun := time.Now(); time.Since(begun) < 25*time.Second; {
		for _, name := range names {
			version, err := z.leaseVersion("a", name)
			if err != nil {
				z.t.Fatal(err)
			}
			if old := versions[name]; old != "" && old != version {
				renewals[name]++
			}
			versions[name] = version
		}
		pauseFor(z.t.Context(), 200*time.Millisecond)
	}
	if writes := z.onlooker.written() - before; writes != 0 || renewals["holdfast-slices"] != 0 {
		z.t.Errorf("at rest %d writes to slices and %d of the short Lease in 25 s", writes, renewals["holdfast-slices"])
	}
	for _, name := range names[1:] {
		if n := renewals[name]; n < 2 || n > 3 {
			z.t.Errorf("%s was renewed %d times in 25 s", name, n)
		}
	}
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

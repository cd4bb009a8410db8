package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// withLapses has agents that cannot do what they are told, then an agent and a node
// that are gone.
func withLapses(t *testing.T) {
	z := startZoned(t, "none")
	z.publish()
	z.step("bad input", z.badInput)
	z.step("an agent is killed and a node dies", z.nodeDies)
}

// nodeDies kills the agent of a, whose apiserver is well, so that nothing changes
// there however long that lasts; and agent and apiserver of b: after the lapse
// the other marks b's endpoint unready, and nothing is deleted but by hand.
func (z *zoned) nodeDies() {
	begun, o := time.Now(), z.onlooker
	// The agent first: it would see the apiserver die.
	z.kill("a", "b")
	if err := z.apiserver("b").Kill(z.t.Context()); err != nil {
		z.t.Fatal(err)
	}
	if said, err := z.byHand("a", "forget", z.node("b")); err == nil {
		z.t.Errorf("an endpoint that its zone depends on was forgotten: %s", said)
	}
	// While that is waited for, what the agents with mistakes have left.
	z.atOnce("forget", []string{"nowhere", "sixth"}, func(node string) error {
		said, err := z.byHand("a", "forget", node)
		if err != nil {
			err = fmt.Errorf("%w: %s", err, said)
		}
		return err
	})
	z.await("marked unready, and adopted", "c", 75*time.Second, map[string]string{"a": "ready [a]", "b": "unready [b]", "c": "ready [b c]"})
	out := o.saw(z, begun, z.sliceName("b"), "unready")
	z.t.Logf("marked unready %s after the death", out.Sub(begun))
	if took, lapse := out.Sub(begun), z.timers.lapse; took < lapse-10*time.Second || took > lapse+15*time.Second {
		z.t.Errorf("marked unready after %s, want %s after the last sign of life, which was up to 10 s old", took, lapse)
	}
	for _, name := range []string{z.sliceName("b"), z.sliceName("c"), "kubernetes"} {
		// The adopter is hinted first, in the same turn.
		if at, ok := o.when(begun, name, ""); ok && at.Before(out.Add(-plan.TurnLasts)) {
			z.t.Errorf("%s was written %s after the death, before the lapse", name, at.Sub(begun))
		}
	}
	o.settle(z, "node dead")
	if said, err := z.byHand("a", "forget", z.node("b")); err != nil || !strings.Contains(said, "deleted EndpointSlice default/"+z.sliceName("b")) {
		z.t.Errorf("forget: %v: %s", err, said)
	}
	if err := z.apiserver("b").Start(z.within(60 * time.Second)); err != nil {
		z.t.Fatal(err)
	}
	z.run("b")
	z.await("the node is back", "c", 60*time.Second, calm)
	o.settle(z, "node back")
	z.agentReturns(begun)
}

// kill ends agents at once.
func (z *zoned) kill(of ...string) {
	z.t.Helper()
	ctx := z.within(10 * time.Second)
	z.atOnce("kill agents", of, func(site string) error { return z.agents[site].child.Stop(ctx, 0) })
}

// agentReturns judges what became of a, whose agent alone is dead since begun, and
// brings it back.
func (z *zoned) agentReturns(begun time.Time) {
	z.t.Helper()
	z.until("the others miss the agent", 60*time.Second, func() error {
		s, err := z.status("c")
		if err != nil {
			return err
		}
		for _, e := range s.Endpoints {
			if e.Node == z.node("a") && e.Agent == "late" {
				return nil
			}
		}
		return fmt.Errorf("%+v", s.Endpoints)
	})
	// Its Lease was up to 10 s old; twice the lapse is beyond all doubt.
	pauseFor(z.t.Context(), time.Until(begun.Add(2*z.timers.lapse)))
	if at, changed := z.onlooker.when(begun, z.sliceName("a"), ""); changed {
		z.t.Errorf("the slice of a was written %s after the death of its agent", at.Sub(begun))
	}
	z.run("a")
	z.agentIsBack("a")
}

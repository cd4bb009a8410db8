package sim

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
)

// sabotaged is how many schedules the judge has for a bent rule.
const sabotaged = 4000

// TestSabotage takes one rule away at a time and wants the judge to notice: an
// invariant that nothing can break proves nothing.
func TestSabotage(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine, and no time: TestSchedules runs the same code in several")
	}
	tests := []struct {
		name   string
		bent   rules
		breach string
	}{
		{"an edit without a read after the stop", rules{decide: func(a *agent, v *pair.View, p *pair.Plan) {
			if p.Why == "the record must be read again before surgery" {
				p.Do = pair.Edit
			}
		}}, "has not read its claim since etcd stopped"},
		{"an edit without a claim of its own", rules{decide: func(a *agent, v *pair.View, p *pair.Plan) {
			if p.Why == "the log has two voters; perhaps the peer is there" {
				p.Do = pair.Edit
			}
		}}, "edits without a claim of its own"},
		{"a claim from solo of the other", rules{decide: func(a *agent, v *pair.View, p *pair.Plan) {
			if v.Arbiter.Record.SoloOf(a.cfg.Peer) && p.Do == pair.Nothing && v.Process.Running && v.Now > v.Process.Since+3e9 {
				next := v.Arbiter.Record
				next.Survivor = a.cfg.Self
				p.Do, p.Next = pair.Claim, next
			}
		}}, "takes over from solo"},
		{"a claim of the newest record, whatever was decided on", rules{newest: true, shape: func(s *Shape) { s.Slow = 0.5 }}, "takes over from solo"},
		{"paired before the learner is a voter", rules{noBarrier: true, decide: func(a *agent, v *pair.View, p *pair.Plan) {
			if p.Do == pair.Promote {
				p.Do, p.Next = pair.Pair, v.Arbiter.Record
				p.Next.State, p.Next.Survivor = arbiter.Paired, ""
			}
		}}, "writes paired, and the cluster has 1 voters"},
		{"paired without a write", rules{noBarrier: true}, "both have acknowledged nothing since"},
		{"a write that nobody asks whom it went to", rules{plainBarrier: true, shape: func(s *Shape) { s.Torn = 1 }}, "writes paired, and the cluster has 1 voters"},
		{"data set aside without the survivor's answer", rules{decide: func(a *agent, v *pair.View, p *pair.Plan) {
			if v.Arbiter.Record.SoloOf(a.cfg.Peer) && !v.Process.Running && p.Do == pair.Nothing && v.Log.Content == pair.Two {
				p.Do = pair.SetAside
			}
		}}, "and the survivor has it as a member"},
		{"a log cut off at its commit index", rules{truncate: true}, "another entry"},
		{"an arbiter that takes every change", rules{liar: true}, "writes generation"},
		{"etcd stopped without the arbiter", rules{decide: func(a *agent, v *pair.View, p *pair.Plan) {
			if v.Arbiter.Trouble == pair.Silent && v.Process.Running {
				p.Do = pair.Stop
			}
		}}, "with nothing broken but the arbiter"},
		{"a pair started without the arbiter, each alone", rules{decide: func(a *agent, v *pair.View, p *pair.Plan) {
			if !v.Arbiter.Known && !v.Process.Running {
				p.Do = pair.Start
			}
			if v.Arbiter.Trouble == pair.Silent && !v.Process.Running && v.Log.Content == pair.Two {
				p.Do = pair.Edit
			}
		}}, "edits without a claim of its own"},
		{"the peer is never promoted", rules{decide: func(a *agent, v *pair.View, p *pair.Plan) {
			if p.Do == pair.Promote {
				p.Do = pair.Nothing
			}
		}}, "and not a pair"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := NewWorld()
			others := map[string]int{}
			for seed := range uint64(sabotaged) {
				r := w.schedule(seed, test.bent)
				if strings.Contains(r.Broken, test.breach) {
					t.Logf("seed %d: %s", seed, r.Broken)
					return
				}
				others[r.Broken]++
			}
			t.Errorf("%d schedules did not break %q", sabotaged, test.breach)
			for broken, n := range others {
				if broken != "" {
					t.Logf("%d times: %s", n, broken)
					break
				}
			}
		})
	}
}

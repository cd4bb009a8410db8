package judge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
)

// t0 is the injection in all tests.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return t0.Add(time.Duration(seconds * float64(time.Second)))
}

// answer is what the world says to a request sent at a time: after how long,
// and with which class of error ("" is good).
type answer struct {
	after time.Duration
	class probe.Class
}

var (
	good    = answer{after: 5 * time.Millisecond}
	timeout = answer{2 * time.Second, probe.ClassTimeout}
	refused = answer{time.Millisecond, probe.ClassRefused}
)

// world answers for a path at a time in seconds after the injection.
type world func(path string, at float64) answer

// always is the world in which nothing happens.
func always(string, float64) answer { return good }

// broken gives the answer to paths with one of the prefixes during [from, to).
func (w world) broken(a answer, from, to float64, prefixes ...string) world {
	return func(path string, at float64) answer {
		if at >= from && at < to {
			for _, p := range prefixes {
				if strings.HasPrefix(path, p) {
					return a
				}
			}
		}
		return w(path, at)
	}
}

// waits makes requests to the path sent during [from, to) wait until to.
func (w world) waits(from, to float64, prefixes ...string) world {
	return func(path string, at float64) answer {
		a := answer{after: time.Duration((to - at) * float64(time.Second))}
		return w.broken(a, from, to, prefixes...)(path, at)
	}
}

// film runs a case against a world: a clean record of 3 s baseline, the hold
// of the case and 4 s of settling, sampled every 200 ms.
func film(c *scenario.Case, agents bool, w world) *record.Record {
	c.Phases.Baseline, c.Phases.Settle = 3*time.Second, 4*time.Second
	for i := range c.Paths {
		c.Paths[i].Interval = 200 * time.Millisecond
	}
	hold := c.Phases.Hold.Seconds()
	rec := &record.Record{Case: c, Run: record.Run{
		Version: record.Version, Agents: agents,
		Started: at(-5), Injected: t0, Healed: at(hold), Ended: at(hold + 4),
		Phases: []record.Phase{
			{Name: "plan", From: at(-5), To: at(-3)},
			{Name: "baseline", From: at(-3), To: t0},
			{Name: "hold", From: t0, To: at(hold)},
			{Name: "settle", From: at(hold), To: at(hold + 4)},
		},
		Faults:   []record.Fault{{Name: "a-b", Kind: "cut", Detail: "cut a-b", From: t0, To: at(hold), Verified: true}},
		Members:  map[string]string{"a1": "a", "b1": "b", "c1": "c"},
		Controls: []string{"a/control", "b/control", "c/control"},
	}}
	names := rec.Run.Controls
	for _, p := range c.Paths {
		names = append(names, p.Name)
	}
	for _, name := range names {
		rec.Samples = append(rec.Samples, samples(name, -3, hold+4, w)...)
	}
	rec.Sort()
	return rec
}

func samples(path string, from, to float64, w world) []probe.Sample {
	var out []probe.Sample
	for i := 0; ; i++ {
		// The offset keeps samples off the marks of the phases.
		sec := from + 0.05 + 0.2*float64(i)
		if sec >= to {
			return out
		}
		a := w(path, sec)
		s := probe.Sample{Path: path, Seq: uint64(i), Scheduled: at(sec), Sent: at(sec), Done: at(sec).Add(a.after), OK: a.class == "", Class: a.class}
		if !s.OK {
			s.Error = fmt.Sprintf("dial: %s", a.class)
		}
		out = append(out, s)
	}
}

// moved adds an agent's move to a record.
func moved(rec *record.Record, seconds float64, took int) {
	rec.Events = append(rec.Events, record.Event{
		At: at(seconds), Source: "agent/a", Kind: record.KindMove, Cluster: "main", Message: "leadership moved from a1 to c1",
		Keys: map[string]string{"from": "a1", "to": "c1", "took_ms": fmt.Sprint(took)},
	})
	rec.Sort()
}

func load(t *testing.T, name, variant string) *scenario.Case {
	t.Helper()
	s, err := scenario.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Case(variant)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// split is the world of partial-split with the leader in a: b's requests that
// need a leader fail until the end of the outage.
func split(until float64) world {
	return world(always).broken(timeout, 0, until, "b/main/put", "b/main/get")
}

package report

import (
	"fmt"
	"time"
)

// demo is a realistic report: partial-split with the leader forced in a, and its
// variants. It is testdata/report.json, which the goldens start from.
func demo() *Report {
	without, with := demoWithout("a"), demoWith("a")
	r := &Report{
		Version:  Version,
		Scenario: "partial-split",
		Title:    "The link a–b is cut, the witness c still sees both",
		Started:  demoStart,
		Verdict:  Inconclusive,
		Reasons:  []string{"two clusters: fault cut-a-b was not in force: b answers a"},
		With:     with,
		Without:  without,
		Paths:    with.Paths,
		Sites:    []Site{{Name: "a", Members: []string{"a1"}}, {Name: "b", Members: []string{"b1"}}, {Name: "c", Witness: true, Members: []string{"c1"}}},
		Numbers: map[string]float64{
			"with.recovery_ms": 3240, "with.moves": 1, "with.transfer_ms": 103, "with.inflight_hit": 2,
			"with.longest_gap_ms": 3312, "without.longest_gap_ms": 30_460, "prober.lag_p99_ms": 4.2,
		},
		Environment: map[string]string{
			"kernel": "6.12.48", "etcd": "3.6.16", "holdfast": "0.1.0", "lab.delay": "tun pair", "lab.preset": "rtt",
			"etcd.heartbeat": "100ms", "etcd.election": "1s", "leader.profile": "fast", "cpus": "2",
		},
	}
	r.Variants = []Variant{
		{Name: "leader in b", Verdict: Pass, With: demoWith("b"), Without: demoWithout("b")},
		{Name: "leader in c", Verdict: Pass, With: demoCalm(true), Without: demoCalm(false)},
		demoInconclusive(),
	}
	return r
}

var demoStart = time.Date(2026, 8, 4, 9, 30, 0, 0, time.UTC)

const (
	demoHold = 30_000.0
	demoEnd  = 38_000.0
)

// demoFault is the cut of a–b for the whole hold.
func demoFault() Fault {
	return Fault{
		Name: "cut-a-b", Kind: "cut", Detail: "link a–b cut, both ways", FromMS: 0, ToMS: demoHold, Verified: true,
		Links: []Link{{From: "a", To: "b"}},
	}
}

func demoPhases() []Phase {
	return []Phase{
		{"plan", -9200, -5000}, {"baseline", -5000, -210}, {"inject", -210, 0}, {"verify", 0, 340},
		{"hold", 340, demoHold}, {"heal", demoHold, 30_180}, {"settle", 30_180, demoEnd}, {"judge", demoEnd, demoEnd},
	}
}

// demoKinds are the paths of each site: kind and mode.
var demoKinds = [][2]string{
	{"put", "new"}, {"put", "reused"}, {"get", "new"}, {"get", "reused"},
	{"serializable", "new"}, {"serializable", "reused"}, {"watch", "stream"},
}

// demoPath is a path with at most one outage, [from, to) of the given class.
func demoPath(site, kind, mode string, p50 float64) Path {
	zero := 0.0
	return Path{
		Name: site + "/etcd/" + kind + "/" + mode, Site: site, Target: "etcd", Kind: kind, Mode: mode,
		Role: "clean", Samples: 430, P50MS: p50, P99MS: p50 * 2.6, RecoveredMS: &zero, Verdict: Pass,
		Expected: &Window{MaxMS: 1000, Why: []string{"one election of a healthy majority: 1 s"}},
		Strip:    []Stretch{{FromMS: -5000, ToMS: demoEnd, Class: "ok"}},
	}
}

// down makes p fail over [from, to] ms.
func (p Path) down(from, to float64, class, text string) Path {
	n := int((to-from)/100) + 1
	p.Failed = n
	p.Outages = []Outage{{
		FromMS: from - 100, ToMS: to + 100, LowerMS: to - from, UpperMS: to - from + 200,
		Errors: map[string]int{class: n}, First: text,
	}}
	p.Strip = []Stretch{
		{FromMS: -5000, ToMS: from - 100, Class: "ok"}, {FromMS: from, ToMS: to, Class: class},
		{FromMS: to + 100, ToMS: demoEnd, Class: "ok"},
	}
	if to < demoHold {
		p.RecoveredMS = new(to + 100)
	} else {
		p.RecoveredMS = nil
	}
	return p
}

// demoPaths are all paths of a run; adjust changes those it knows.
func demoPaths(adjust func(Path) Path) []Path {
	rtt := map[string]float64{"a": 24, "b": 46, "c": 25}
	var list []Path
	for _, site := range []string{"a", "b", "c"} {
		for _, k := range demoKinds {
			p50 := rtt[site]
			if k[0] == "serializable" {
				p50 = 1.4
			}
			if k[1] == "new" {
				p50 += 6
			}
			list = append(list, adjust(demoPath(site, k[0], k[1], p50)))
		}
		control := demoPath(site, "tcp", "new", .3)
		control.Name, control.Target, control.Kind, control.Role = site+"/control", "loopback", "control", "control"
		control.Expected = nil
		list = append(list, control)
	}
	return list
}

// affected marks the paths that need the leader on the far side of the cut.
func affected(p Path, site string) bool {
	return p.Site == site && p.Kind != "serializable" && p.Kind != "control"
}

func demoWindow() *Window {
	return &Window{MinMS: 0, MaxMS: 6000, Why: []string{
		"link certainly down: 1 s", "settle: 2 s", "transfer and publish: 1 s", "one election that fails: 2 s",
	}}
}

// other is the workload site across the cut.
func other(site string) string {
	if site == "a" {
		return "b"
	}
	return "a"
}

func demoWithout(leader string) *Run {
	far := other(leader)
	paths := demoPaths(func(p Path) Path {
		if !affected(p, far) {
			return p
		}
		p.Role, p.Expected, p.Reason = "affected", nil, "down until the heal, as expected without the agents"
		if p.Kind == "watch" {
			return p.down(1500, 30_260, "server", "etcdserver: no leader")
		}
		return p.down(0, 30_260, "timeout", "context deadline exceeded")
	})
	return &Run{
		Started: demoStart, Verdict: Pass,
		Phases: demoPhases(), Faults: []Fault{demoFault()}, Paths: paths,
		Events: []Event{
			leaderEvent(-4600, "leader-changed", "", leader, 6),
			{AtMS: 1310, Source: "observer", Kind: "no-leader", Cluster: "main", Message: far + "1 has no leader", Keys: map[string]string{"member": far + "1"}},
			{AtMS: 30_240, Source: "observer", Kind: "leader-back", Cluster: "main", Message: far + "1 has the leader " + leader + "1", Keys: map[string]string{"member": far + "1"}},
		},
	}
}

func demoWith(leader string) *Run {
	far := other(leader)
	paths := demoPaths(func(p Path) Path {
		switch {
		case affected(p, far) && p.Kind == "watch":
			p.Role, p.Expected = "affected", demoWindow()
			return p.down(1500, 3100, "server", "etcdserver: no leader")
		case affected(p, far):
			p.Role, p.Expected = "affected", demoWindow()
			return p.down(0, 3140, "timeout", "context deadline exceeded")
		case p.Kind == "put" && p.Site != far:
			p.Strip = []Stretch{
				{FromMS: -5000, ToMS: 2900, Class: "ok"}, {FromMS: 3000, ToMS: 3100, Class: "slow"}, {FromMS: 3200, ToMS: demoEnd, Class: "ok"},
			}
		}
		return p
	})
	return &Run{
		Agents: true, Started: demoStart.Add(time.Minute), Verdict: Pass, Recovered: true, RecoveryMS: new(3240.0),
		Moves: 1, FirstMoveMS: new(3118.0), TransferMS: new(103.0), Inflight: 2,
		Phases: demoPhases(), Faults: []Fault{demoFault()}, Paths: paths,
		Events: []Event{
			leaderEvent(-4600, "leader-changed", "", leader, 6),
			{AtMS: 640, Source: "agent/" + leader, Kind: "peer-lost", Cluster: "main", Message: leader + "1 no longer reaches " + far + "1"},
			{AtMS: 1290, Source: "observer", Kind: "no-leader", Cluster: "main", Message: far + "1 has no leader", Keys: map[string]string{"member": far + "1"}},
			{AtMS: 3118, Source: "agent/" + leader, Kind: "move", Cluster: "main", Message: "leadership moved from " + leader + "1 to c1: the leader no longer reaches " + far + "1, c1 reaches all", Keys: map[string]string{"from": leader + "1", "to": "c1", "took_ms": "103"}},
			leaderEvent(3131, "leader-changed", leader, "c", 7),
			{AtMS: 3205, Source: "observer", Kind: "leader-back", Cluster: "main", Message: far + "1 has the leader c1", Keys: map[string]string{"member": far + "1"}},
		},
	}
}

func leaderEvent(at float64, kind, from, to string, term int) Event {
	e := Event{AtMS: at, Source: "observer", Kind: kind, Cluster: "main", Message: fmt.Sprintf("leader is %s1, term %d", to, term), Keys: map[string]string{"to": to + "1"}}
	if from != "" {
		e.Keys["from"] = from + "1"
	}
	return e
}

// demoCalm is the run with the leader on the witness: nothing needs to move.
func demoCalm(agents bool) *Run {
	run := &Run{
		Agents: agents, Started: demoStart.Add(2 * time.Minute), Verdict: Pass, Recovered: true, RecoveryMS: new(0.0),
		Phases: demoPhases(), Faults: []Fault{demoFault()}, Paths: demoPaths(func(p Path) Path { return p }),
		Events: []Event{leaderEvent(-4600, "leader-changed", "", "c", 6)},
	}
	return run
}

// demoInconclusive is a variant whose fault was not in force.
func demoInconclusive() Variant {
	run := demoCalm(true)
	reason := "fault cut-a-b was not in force: b answers a"
	run.Faults[0].Verified = false
	run.Verdict, run.Reasons = Inconclusive, []string{reason}
	for i := range run.Paths {
		run.Paths[i].Verdict, run.Paths[i].Reason = Inconclusive, reason
	}
	return Variant{Name: "two clusters", Verdict: Inconclusive, Reasons: []string{reason}, With: run}
}

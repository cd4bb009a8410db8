package robustness

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// rig is a pair run by agents, with an arbiter.
type rig struct {
	*testing.T
	dir      string
	stations [2]*station
	swapped  chan struct{}
	took     uint64 // how often one came to serve alone
}

func newRig(t *testing.T, s schedule) *rig {
	t.Helper()
	g := &rig{T: t, dir: workspace(t), swapped: make(chan struct{}, 64)}
	leaveReaper(t, g.dir)
	a, b := sites(t, g.dir, s.version, s.extra...)
	arbiter := net.JoinHostPort(strings.TrimSuffix(a.ip, "1")+"3", "9387")
	spawn(t, filepath.Join(g.dir, "arbiter.log"), holdfast, "pair", "arbiter", "serve", "--listen", arbiter, "--dir", filepath.Join(g.dir, "arbiter"))
	for i, at := range []*site{a, b} {
		g.stations[i] = &station{
			site: at, timers: s.timers, kept: map[string]string{},
			messenger: newMessenger(t, net.JoinHostPort(at.ip, "9387"), "http://"+arbiter, "/pairs/x", g.swapped),
		}
	}
	g.stations[0].peer, g.stations[1].peer = g.stations[1], g.stations[0]
	t.Cleanup(g.end)
	return g
}

// end leaves no process behind: an etcd outlives its agent.
func (g *rig) end() {
	for _, s := range g.stations {
		s.killAgent()
		comes(5*time.Second, func() bool {
			s.signalEtcd(syscall.SIGKILL)
			return len(s.pids()) == 0
		})
	}
}

// of are the stations that a fault is about.
func (g *rig) of(site int) []*station {
	if site == 2 {
		return g.stations[:]
	}
	return g.stations[site : site+1]
}

// begin does a fault, and returns what ends it.
func (g *rig) begin(f fault) (undo func()) {
	at := g.of(f.site)
	each := func(do func(*station)) {
		for _, s := range at {
			do(s)
		}
	}
	start := func() { each(func(s *station) { s.startAgent(g.T) }) }
	switch f.kind {
	case "cut", "cut-and-reset":
		cut(g.stations[0].site, g.stations[1].site)
		return func() {
			heal(g.stations[0].site, g.stations[1].site)
			if f.kind == "cut-and-reset" {
				reset(g.stations[0].site, g.stations[1].site)
			}
		}
	case "one-way":
		each(func(s *station) { cut(s.site) })
		return func() { each(func(s *station) { heal(s.site) }) }
	case "reset":
		each(func(s *station) { reset(s.site) })
	case "etcd-killed":
		each(func(s *station) { s.signalEtcd(syscall.SIGKILL) })
	case "agent-killed":
		each((*station).killAgent)
		return start
	case "agent-killed-twice":
		each((*station).killAgent)
		start()
		each((*station).killAgent)
		return start
	case "power":
		each(func(s *station) {
			s.killAgent()
			s.signalEtcd(syscall.SIGKILL)
		})
		return start
	default:
		return g.beginOther(f, each)
	}
	return func() {}
}

// beginOther is begin for what is frozen and for arbiters.
func (g *rig) beginOther(f fault, each func(func(*station))) (undo func()) {
	freeze := func(etcd, agent bool, sig syscall.Signal) {
		each(func(s *station) {
			if etcd {
				s.signalEtcd(sig)
			}
			if agent && s.agent.runs() {
				_ = s.agent.cmd.Process.Signal(sig)
			}
		})
	}
	etcd, agent := f.kind != "agent-frozen", f.kind != "etcd-frozen"
	what, how, _ := strings.Cut(f.kind, "-")
	switch {
	case how == "frozen":
		freeze(etcd, agent, syscall.SIGSTOP)
		return func() { freeze(etcd, agent, syscall.SIGCONT) }
	case what == "arbiter":
		each(func(s *station) { s.messenger.behave(manner(how), f.lasts/2) })
		return func() { each(func(s *station) { s.messenger.behave(honest, 0) }) }
	case what == "lie":
		each(func(s *station) { s.messenger.lieOnce(lie(how)) })
		return func() { each(func(s *station) { s.messenger.lieOnce(truth) }) }
	}
	g.Fatalf("no such fault: %s", f.kind)
	return nil
}

// suffer goes through a schedule.
func (g *rig) suffer(s schedule) {
	type step struct {
		at time.Duration
		do func()
	}
	began := time.Now()
	var steps []step
	var waiting []fault
	plan := func(f fault, from time.Duration) {
		steps = append(steps, step{from + f.at, func() {
			undo := g.begin(f)
			steps = append(steps, step{time.Since(began) + f.lasts, undo})
		}})
	}
	for _, f := range s.faults {
		if f.onSwap {
			waiting = append(waiting, f)
			continue
		}
		plan(f, 0)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for now := time.Duration(0); now < scheduled; now = time.Since(began) {
		select {
		case <-g.swapped:
			if len(waiting) > 0 {
				plan(waiting[0], time.Since(began))
				waiting = waiting[1:]
			}
		case <-tick.C:
		}
		for i := 0; i < len(steps); i++ {
			if s := steps[i]; s.at <= time.Since(began) {
				steps = append(steps[:i], steps[i+1:]...)
				i--
				s.do()
			}
		}
	}
}

// mend ends everything that may still be wrong.
func (g *rig) mend() {
	heal(g.stations[0].site, g.stations[1].site)
	for _, s := range g.stations {
		s.messenger.behave(honest, 0)
		s.messenger.lieOnce(truth)
		s.signalEtcd(syscall.SIGCONT)
		_ = s.agent.cmd.Process.Signal(syscall.SIGCONT)
		s.startAgent(g.T)
	}
}

// settles waits until both members serve and the record says paired.
func (g *rig) settles(within time.Duration) time.Duration {
	g.Helper()
	began := time.Now()
	if !comes(within, func() bool { return g.stations[0].paired(g.Context()) && g.stations[1].paired(g.Context()) }) {
		ctx := context.WithoutCancel(g.Context())
		g.Fatalf("not paired after %s:\n%s\n%s", within, g.stations[0].says(ctx), g.stations[1].says(ctx))
	}
	return time.Since(began)
}

// keepAsides goes on until stop is called.
func (g *rig) keepAsides() (stop func()) {
	var done sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	done.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			for _, s := range g.stations {
				s.keepAside(g.T)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// takeovers tells from the record how often one served alone.
func (g *rig) takeovers() uint64 {
	got, err := g.stations[0].status(g.Context())
	if err != nil || got.Record == nil {
		g.Fatalf("status of a: %v", err)
	}
	return got.Record.Generation / 2
}

func TestAgents(t *testing.T) {
	var runs, takeovers atomic.Uint64
	t.Cleanup(func() {
		// A third of the runs have none: their fault is over before a claim, or stops the agent too.
		if n := runs.Load(); n >= 10 && takeovers.Load() < n/4 {
			t.Errorf("%d takeovers in %d runs: too few to have tried it", takeovers.Load(), n)
		}
	})
	for _, seed := range seeds(t, number(t, "HOLDFAST_ROBUST_RUNS", 20)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := chooseSchedule(seed)
			t.Log(s)
			g := newRig(t, s)
			r := g.run(s)
			runs.Add(1)
			takeovers.Add(g.took)
			r.accept(t, 150)
		})
	}
}

func (g *rig) run(s schedule) record {
	stop := g.keepAsides()
	defer stop()
	for _, s := range g.stations {
		s.startAgent(g.T)
	}
	g.settles(40 * time.Second)
	a, b := g.stations[0], g.stations[1]
	l := drive(g.T, a.site, b.site)
	a.advances(g.T, 100)
	g.suffer(s)
	g.mend()
	again := g.settles(90 * time.Second)
	g.took = g.takeovers()
	g.Logf("%d takeovers; paired again %.1f s after everything was well again", g.took, again.Seconds())
	a.advances(g.T, 50)
	b.advances(g.T, 50)
	reports := l.end(g.T)
	sameKeys(g.T, a.site, b.site)
	for _, s := range g.stations {
		s.killAgent()
		s.signalEtcd(syscall.SIGKILL)
	}
	comes(5*time.Second, func() bool { return len(a.pids())+len(b.pids()) == 0 })
	stop()
	return record{dir: g.dir, reports: reports, logs: logs(a.site, b.site)}
}

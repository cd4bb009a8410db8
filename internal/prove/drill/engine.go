package drill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
)

// engine takes one case through its phases.
type engine struct {
	c      *scenario.Case
	agents bool
	peer   string
	// kubernetes is the version of its programs, "" for the lab's default.
	kubernetes string
	exe        string // this program, for probers and agents
	log        *slog.Logger
	show       *progress
	ready      func(context.Context) error // see Options

	clock clock
	w     *record.Writer
	lab   *lab.Lab
	// members of the lab by cluster and site.
	members map[scenario.Process]*lab.Member
	// apiservers of the lab by site, the first of each; servers all by node.
	apiservers map[string]*lab.APIServer
	servers    map[string]*lab.APIServer
	probers    map[string]*lab.Child
	pods       map[string]*lab.Pod             // of clients, by site
	backing    map[string]*backingPod          // of the case's Service, by name
	running    map[scenario.Process]*lab.Child // agents
	watchers   *watchers
	// links are those that a fault has made worse, as they were.
	links map[string]lab.Link
	// syncs are what members said of their disks when the first slow one was made.
	syncs map[scenario.Process]lab.Syncs
	// router is that of an address that is announced.
	router *lab.Router
	// macs maps the MAC addresses of those that may hold an address to their names.
	macs     map[string]string
	sockets  string          // directory of the agents' control sockets
	versions map[string]bool // of etcd, as its members say

	// mu guards what children's output touches: running, run.Trouble,
	// run.Injected and the fields below. The rest of run belongs to the
	// engine's goroutine.
	mu  sync.Mutex
	run record.Run
	// recent holds the samples since the baseline began, until the injection.
	recent []probe.Sample
	fresh  map[string]int // good samples in a row, by path
	// peerStates is what keepalived or its like last said of themselves.
	peerStates map[scenario.Process]string
	ending     bool // children are being stopped; their end is no news
}

// settleDown bounds how long a fresh lab may take until every path answers.
const settleDown = 20 * time.Second

// settleKubernetes is the same with kubelets and kube-proxies, which take a while
// to be quiet after they are ready.
const settleKubernetes = time.Minute

// wholeWithin bounds how much longer than its time a settle phase waits for
// paths to be whole. Without agents they need it: etcd keeps a peer connection
// that the cut silenced, and TCP's retransmissions, doubled from 200 ms, are
// 26 s apart by the time of a 26 s cut (measured after 20 s: 10 s until a
// follower could write again).
const wholeWithin = 30 * time.Second

// do runs the case and leaves its record in w. The error is nil when the run
// came to its end, even if it proves nothing; why it does not is in the record.
func (e *engine) do(ctx context.Context) error {
	e.clock = newClock()
	e.versions = map[string]bool{}
	e.running, e.peerStates = map[scenario.Process]*lab.Child{}, map[scenario.Process]string{}
	e.run = record.Run{Agents: e.agents, Started: e.clock.now()}
	err := e.phases(ctx)
	return errors.Join(err, e.finish())
}

func (e *engine) phases(ctx context.Context) error {
	if err := e.phase(ctx, "plan", 0, e.build); err != nil {
		return e.unbuilt(ctx, err)
	}
	if e.ready != nil {
		if err := e.phase(ctx, "wait", 0, e.ready); err != nil {
			return err
		}
	}
	if steady := e.baseline(ctx); !steady {
		return ctx.Err()
	}
	end := e.hold(ctx)
	if err := e.phase(ctx, "heal", 0, e.heal); err != nil {
		e.trouble("heal: %v", err)
	}
	if end != nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return e.phase(ctx, "settle", e.c.Phases.Settle, e.settle)
}

// unbuilt tells what the machine cannot do, which ends the drill, from what
// did not come up in time, which makes one run inconclusive: the runs before
// it are worth a report.
func (e *engine) unbuilt(ctx context.Context, err error) error {
	if e.lab == nil || ctx.Err() != nil {
		return err
	}
	e.trouble("%v", err)
	return nil
}

// phase records and shows one phase.
func (e *engine) phase(ctx context.Context, name string, length time.Duration, f func(context.Context) error) error {
	e.show.phase(name, length)
	from := e.clock.now()
	err := f(ctx)
	e.run.Phases = append(e.run.Phases, record.Phase{Name: name, From: from, To: e.clock.now()})
	return err
}

// build starts everything: lab, etcd, leaders, agents, observers, probers.
func (e *engine) build(ctx context.Context) error {
	spec, err := labSpec(e.c, e.agents, e.peer, filepath.Join(e.w.Dir(), "lab"))
	if err != nil {
		return err
	}
	spec.KubernetesOptions.Version = e.kubernetes
	if e.lab, err = lab.Start(ctx, spec, e.log); err != nil {
		return fmt.Errorf("start lab: %w", err)
	}
	if err := e.startEtcd(ctx); err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	if err := e.findMembers(); err != nil {
		return err
	}
	if err := e.forceLeaders(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return e.startAgents(ctx, scenario.AgentEtcdBalance) },
		e.startAPIServers,
		func(ctx context.Context) error { return e.startAgents(ctx, scenario.AgentBalance) },
		e.startKubernetes,
		e.watch,
		e.awaitPaired,
		e.fill,
		e.publishSeed,
		func(ctx context.Context) error {
			return e.startAgents(ctx, scenario.AgentLeader, scenario.AgentSlices, scenario.AgentZonal)
		},
		e.startAddress,
		e.awaitZoned,
		e.awaitServed,
		e.startGateways,
		e.awaitMirrored,
		e.startStores,
		e.startProbers,
		e.startRouteProber,
		e.warmUp,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (e *engine) findMembers() error {
	e.members = map[scenario.Process]*lab.Member{}
	for _, cluster := range e.c.ClusterNames() {
		for _, site := range e.c.MemberSites(cluster) {
			m, err := e.lab.Member(cluster, site)
			if err != nil {
				return fmt.Errorf("find member: %w", err)
			}
			e.members[scenario.Process{Cluster: cluster, Site: site}] = m
		}
	}
	return nil
}

// forceLeaders brings the leader of every cluster to its starting site.
func (e *engine) forceLeaders(ctx context.Context) error {
	for cluster, site := range e.c.Leaders {
		if err := e.lab.MoveLeader(ctx, cluster, site); err != nil {
			return fmt.Errorf("force the leader of %s to site %s: %w", cluster, site, err)
		}
	}
	return nil
}

// astray names a cluster whose leader is not where the case wants it, or who holds
// the address in the place of whom the case wants.
func (e *engine) astray() string {
	for cluster, site := range e.c.Leaders {
		if at := e.watchers.leaderSite(cluster); at != site {
			return fmt.Sprintf("the leader of %s is in %q and not in %q", cluster, at, site)
		}
	}
	return e.displaced()
}

// trouble notes what makes the run inconclusive.
func (e *engine) trouble(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	e.log.Warn("drill in trouble", "reason", text)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.run.Trouble = append(e.run.Trouble, text)
}

// settle watches the healed cluster for its time, and longer while a judged
// path does not answer yet.
func (e *engine) settle(ctx context.Context) error {
	if err := e.clock.pause(ctx, e.clock.now().Add(e.c.Phases.Settle)); err != nil {
		return err
	}
	until(ctx, wholeWithin, func() bool { return e.coldPath(isAwaited(e.c)) == "" && e.isPaired() })
	e.noteStores(ctx)
	return ctx.Err()
}

// isAwaited says whether a path must answer in the end: one that is judged, and in a
// pair those of the site that was lost, too.
func isAwaited(c *scenario.Case) func(scenario.Path) bool {
	judged := isJudged(c)
	return func(p scenario.Path) bool { return c.HasPair() && c.Pair.Forced == "" || judged(p) }
}

func isJudged(c *scenario.Case) func(scenario.Path) bool {
	return func(p scenario.Path) bool { return c.ExpectationOf(p).Role != scenario.RoleInfo }
}

// finish stops the probers first, so that their samples in flight are awaited
// while everything still runs, then closes the lab and completes the record.
func (e *engine) finish() error {
	// The run may have been interrupted; its end must not be.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	e.show.phase("stop", 0)
	e.run.Ended = e.clock.now()
	e.mu.Lock()
	e.ending = true
	e.mu.Unlock()
	e.stopProbers(ctx)
	e.noteNeighbours(ctx)
	e.keepKeys(ctx)
	if e.watchers != nil {
		e.watchers.stop()
	}
	e.stopAgents(ctx)
	var errs []error
	if e.sockets != "" {
		errs = append(errs, os.RemoveAll(e.sockets))
	}
	if e.lab != nil {
		e.run.Environment = e.environment()
		journal := e.lab.Journal()
		errs = append(errs, e.keepPairLogs(), e.lab.Close(), e.keepLogs(journal))
	}
	e.closeFaults()
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Join(append(errs, e.w.Close(e.run))...)
}

// closeFaults ends what was still in force when the lab went down.
func (e *engine) closeFaults() {
	for i := range e.run.Faults {
		if e.run.Faults[i].To.IsZero() {
			e.run.Faults[i].To = e.run.Ended
		}
	}
}

// keepLogs moves the lab's logs and commands into the record and removes the
// rest of its directory, which holds private keys.
func (e *engine) keepLogs(journal []string) error {
	dir := filepath.Join(e.w.Dir(), "lab")
	logs, _ := filepath.Glob(filepath.Join(dir, "logs", "*.log"))
	for _, path := range logs {
		to := filepath.Join(e.w.Dir(), record.LogsDir, filepath.Base(path))
		if err := os.Rename(path, to); err != nil {
			return fmt.Errorf("keep log: %w", err)
		}
	}
	for _, line := range journal {
		if err := e.w.Command(line); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove lab directory: %w", err)
	}
	return nil
}

func (e *engine) environment() map[string]string {
	env := e.lab.Environment()
	if env == nil {
		env = map[string]string{}
	}
	env["etcd-version"] = strings.Join(slices.Sorted(maps.Keys(e.versions)), ", ")
	for _, k := range e.c.Clusters {
		t := e.c.TimersOf(k.Name)
		env["timers/"+k.Name] = fmt.Sprintf("heartbeat %s, election %s, settle %s", k.Heartbeat, t.Election, t.Settle)
	}
	if e.c.Agents.Has(scenario.AgentBalance) {
		env["balance"] = "with the agents " + balanceWords("") + "; without them " + balanceWords(e.c.Balance.Without)
	}
	if e.c.HasPair() {
		env["pair"] = "with the agents " + pairWords(e.c, true) + "; without them " + pairWords(e.c, false)
	}
	if e.anycast() {
		env["vip"] = "with the agents " + announcerWords(e.c, true) + "; without them " + announcerWords(e.c, false)
	} else if e.hasAddress() {
		env["vip"] = "with the agents " + holderWords(e.c, true) + "; without them " + holderWords(e.c, false)
	}
	return env
}

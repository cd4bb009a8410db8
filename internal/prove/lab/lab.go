package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// started counts the labs that this process has started.
var started atomic.Uint64

// Lab is a running lab. Its methods may be called from several goroutines.
type Lab struct {
	spec   Spec
	plan   plan
	log    *slog.Logger
	dir    string
	ownDir bool // Close removes dir
	// id tells the lab from others of this process.
	id   string
	data string // etcd's data, removed by Close
	// dataLock is held for as long as data is ours; see makeData.
	dataLock *os.File
	journal  *journal
	netem    bool

	routers  map[string]*router
	nodes    []*Node
	children children
	prober   *prober
	clusters []*cluster
	// kubernetes holds the Kubernetes files of every node, by its name.
	kubernetes map[string]KubernetesPKI
	apiservers []*APIServer
	// speakers are routers with FRR, by site; under change.
	speakers map[string]*Router
	// controllers and schedulers are site by site, as apiservers.
	controllers, schedulers []*Component

	// change is held by whoever changes the network, through verification.
	change sync.Mutex
	// mu guards the fields below it.
	mu         sync.Mutex
	links      []linkPlan // as plan.links, with the properties in force
	wires      []wire     // by index of links
	cuts       []Applied
	generation uint32
	version    string // of etcd, "" until it has run
	pods       []*Pod

	close sync.Once
}

// Preflight reports what this machine lacks for a lab, in one line with the
// remedy.
func Preflight() error {
	if os.Geteuid() != 0 {
		return errors.New("a lab makes network namespaces: run it as root")
	}
	if _, err := exec.LookPath("nft"); err != nil {
		return errors.New("the program nft is missing: install the package nftables")
	}
	return nil
}

// Start builds the network of the lab and its certificates, and returns when
// every link answers. No process runs yet.
func Start(ctx context.Context, spec Spec, log *slog.Logger) (*Lab, error) {
	spec, err := spec.complete()
	if err != nil {
		return nil, err
	}
	if err := spec.Preflight(); err != nil {
		return nil, err
	}
	l := &Lab{
		spec: spec, plan: newPlan(spec), log: log, routers: map[string]*router{}, generation: 1,
		prober: newProber(), kubernetes: map[string]KubernetesPKI{}, speakers: map[string]*Router{},
	}
	l.id = fmt.Sprintf("%s-%d", spec.Name, started.Add(1))
	l.children.all, l.children.over = map[*Child]bool{}, make(chan struct{})
	l.links = append(l.links, l.plan.links...)
	go l.prober.keepAlive()
	if err := l.build(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Lab) build(ctx context.Context) error {
	if err := l.makeDirs(); err != nil {
		return err
	}
	var err error
	if l.netem, err = hasNetem(); err != nil {
		return err
	}
	if err := l.buildNetwork(); err != nil {
		return err
	}
	if err := l.buildClusters(); err != nil {
		return err
	}
	if err := l.buildAPIServers(); err != nil {
		return err
	}
	if err := l.verify(ctx); err != nil {
		return fmt.Errorf("start lab: %w", err)
	}
	l.log.Info("lab is up", "lab", l.spec.Name, "sites", len(l.spec.Sites), "links", l.method(), "dir", l.dir)
	return nil
}

func (l *Lab) makeDirs() error {
	var err error
	l.dir = l.spec.Dir
	if l.dir == "" {
		l.ownDir = true
		if l.dir, err = os.MkdirTemp("", "holdfast-lab-"); err != nil {
			return fmt.Errorf("make run directory: %w", err)
		}
	}
	if l.dir, err = filepath.Abs(l.dir); err != nil {
		return fmt.Errorf("find run directory: %w", err)
	}
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return fmt.Errorf("make run directory: %w", err)
	}
	if l.data, l.dataLock, err = makeData(l.dir, l.spec); err != nil {
		return err
	}
	l.journal, err = openJournal(l.dir)
	return err
}

func (l *Lab) buildNetwork() error {
	for _, s := range l.plan.sites {
		r, err := newRouter(s)
		if err != nil {
			return err
		}
		l.routers[s.Name] = r
		for _, p := range s.nodes {
			if err := l.addNode(r, p); err != nil {
				return err
			}
		}
	}
	for _, lp := range l.links {
		method := wireMethod(lp.Link, l.netem)
		l.journal.write("link %s: %s", describe(lp.Link), method)
		w, err := openWire(method, l.plan, lp, l.routers)
		if err != nil {
			return err
		}
		l.wires = append(l.wires, w)
	}
	return l.applyRules(nil, l.generation)
}

func (l *Lab) addNode(r *router, p nodePlan) error {
	sp, err := r.plug(p)
	if err != nil {
		return err
	}
	n := &Node{nodePlan: p, lab: l, space: sp}
	l.nodes = append(l.nodes, n)
	if n.spawner, err = space.NewSpawner(sp); err != nil {
		return err
	}
	n.echo, err = newResponder(n, &l.prober.seen)
	return err
}

// Close ends every process of the lab and gives the network back. It may be
// called more than once; only the first call does anything.
func (l *Lab) Close() error {
	var err error
	l.close.Do(func() { err = l.shut() })
	return err
}

func (l *Lab) shut() error {
	l.killAll()
	for _, c := range l.clusters {
		c.close()
	}
	for _, a := range l.apiservers {
		a.http.CloseIdleConnections()
	}
	errs := []error{l.sweep(), l.sweepCgroups()}
	l.prober.close()
	for _, w := range l.wires {
		errs = append(errs, w.close())
	}
	l.closePods()
	for _, n := range l.nodes {
		if n.echo != nil {
			n.echo.close()
		}
		if m := n.machine.Load(); m != nil {
			m.inside.Close()
		}
		if n.spawner != nil {
			n.spawner.Close()
		}
		errs = append(errs, n.space.Close())
	}
	for _, r := range l.speakers {
		r.spawner.Close()
	}
	for _, r := range l.routers {
		r.close()
	}
	if l.journal != nil {
		l.journal.close()
	}
	if l.data != "" {
		errs = append(errs, os.RemoveAll(l.data))
		if l.dataLock != nil {
			_ = l.dataLock.Close()
		}
	}
	if l.ownDir && l.dir != "" {
		errs = append(errs, os.RemoveAll(l.dir))
	}
	return errors.Join(errs...)
}

// sweepCgroups removes the cgroups of the lab's containers.
func (l *Lab) sweepCgroups() error {
	owner, err := ownCgroupOwner()
	if err != nil {
		return err
	}
	return sweepCgroups(owner, l.id)
}

// sweep kills what children have left behind in the lab's namespaces.
func (l *Lab) sweep() error {
	return killInside(l.ids())
}

func (l *Lab) ids() []space.ID {
	var ids []space.ID
	for _, n := range l.nodes {
		ids = append(ids, n.space.ID())
	}
	for _, r := range l.routers {
		ids = append(ids, r.space.ID())
	}
	return ids
}

// killInside kills the processes in the given namespaces until none is left.
func killInside(ids []space.ID) error {
	if len(ids) == 0 {
		return nil
	}
	const patience = 5 * time.Second // SIGKILL waits for a process in the kernel, not longer
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		pids, err := space.Processes(ids)
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("kill leftovers: processes %v do not end", pids)
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// Name is the name of the lab, Dir its run directory.
func (l *Lab) Name() string { return l.spec.Name }
func (l *Lab) Dir() string  { return l.dir }

// Spec is what the lab was built from, with defaults filled in.
func (l *Lab) Spec() Spec { return l.spec }

// Nodes lists the nodes, site by site.
func (l *Lab) Nodes() []*Node { return append([]*Node(nil), l.nodes...) }

// Node finds a node by name.
func (l *Lab) Node(name string) (*Node, error) {
	var names []string
	for _, n := range l.nodes {
		if n.name == name {
			return n, nil
		}
		names = append(names, n.name)
	}
	return nil, fmt.Errorf("node %q is unknown: use %s", name, strings.Join(names, ", "))
}

// Journal lists the changes made to the network, each with its time. The same
// stands in commands.log of the run directory.
func (l *Lab) Journal() []string { return l.journal.list() }

// Matrix measures who reaches whom.
func (l *Lab) Matrix(ctx context.Context) (Matrix, error) {
	return l.measure(ctx, l.patience())
}

// Expected is the matrix that links and cuts in force amount to.
func (l *Lab) Expected() Matrix {
	l.mu.Lock()
	defer l.mu.Unlock()
	return expected(l.plan, l.cuts)
}

func (l *Lab) measure(ctx context.Context, patience time.Duration) (Matrix, error) {
	m := l.Expected()
	var g errgroup.Group
	for i, want := range m.Cells {
		g.Go(func() error {
			x, _ := l.Node(want.From)
			y, _ := l.Node(want.To)
			if want.Open[KindKept] {
				// A failure shows as a kept connection that does not answer.
				openCtx, cancel := context.WithTimeout(ctx, patience)
				defer cancel()
				_ = l.prober.open(openCtx, x, y)
			}
			m.Cells[i] = l.prober.measure(ctx, x, y, sortedKinds(want.Open), patience)
			return nil
		})
	}
	_ = g.Wait()
	if err := ctx.Err(); err != nil {
		return Matrix{}, fmt.Errorf("measure reachability: %w", err)
	}
	return m, nil
}

// patience is how long a probe waits before it calls a path blocked: twice the
// round trip of the longest link and 300 ms for a busy machine; with losses,
// also TCP's first retransmission of a SYN (1 s, RFC 6298).
func (l *Lab) patience() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := 300 * time.Millisecond
	for _, lp := range l.links {
		d = max(d, 300*time.Millisecond+4*(lp.Delay+lp.Jitter))
	}
	for _, lp := range l.links {
		if lp.Loss > 0 {
			return d + 1200*time.Millisecond
		}
	}
	return d
}

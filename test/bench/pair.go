package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// benchPair measures two members on loopback with an arbiter of our own: the loss of
// the leader and of the follower, the way back, and agents at rest. etcd by itself
// has no figure to stand beside: its two members write again when the lost one is back.
func benchPair(ctx context.Context, quick bool) ([]Row, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-pair-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary, err := filepath.Abs("bin/holdfast")
	if err != nil {
		return nil, err
	}
	g := &ground{dir: dir, binary: binary, quick: quick, ports: 17000} // below those that the kernel gives to clients
	p, err := g.newPair(ctx, "3.6")
	if p != nil {
		defer p.end()
	}
	if err != nil {
		return nil, err
	}
	rest, err := p.rest(ctx, g.window(40*time.Second, 10*time.Second))
	if err != nil {
		return nil, err
	}
	lost, err := p.losses(ctx, 2*g.times(5))
	if err != nil {
		return nil, err
	}
	return append(lost, rest...), nil
}

// site is one member with its agent.
type pairSite struct {
	name                      string
	client, raft, status, fix int // ports; fix is the peer's client port
	agent                     *child
	cli                       *clientv3.Client
}

type benchedPair struct {
	g        *ground
	etcd     string
	arbiter  *child
	counter  *http.Server
	requests atomic.Int64
	url      string
	sites    [2]*pairSite
}

func (g *ground) newPair(ctx context.Context, version string) (*benchedPair, error) {
	peers, err := exec.CommandContext(ctx, "scripts/peers", "--dir").Output()
	if err != nil {
		return nil, fmt.Errorf("find the peers: %w", err)
	}
	p := &benchedPair{g: g, etcd: filepath.Join(strings.TrimSpace(string(peers)), "etcd-"+version)}
	if err := p.serveArbiter(ctx); err != nil {
		return p, err
	}
	for i, name := range []string{"a", "b"} {
		p.sites[i] = &pairSite{name: name, client: g.port(), raft: g.port(), status: g.port()}
	}
	p.sites[0].fix, p.sites[1].fix = p.sites[1].client, p.sites[0].client
	for _, s := range p.sites {
		s.cli, err = clientv3.New(clientv3.Config{Endpoints: []string{loopback(s.client)}, Logger: zap.NewNop()})
		if err != nil {
			return p, err
		}
		if err := p.start(s); err != nil {
			return p, err
		}
	}
	return p, p.paired(ctx)
}

func loopback(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }

// serveArbiter runs one, and a counter of requests before it.
func (p *benchedPair) serveArbiter(ctx context.Context) (err error) {
	port := p.g.port()
	p.arbiter, err = p.g.spawn("arbiter", p.g.binary, "pair", "arbiter", "serve", "--dir", filepath.Join(p.g.dir, "arbiter"), "--listen", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	if err := p.arbiter.serving(ctx, port); err != nil {
		return err
	}
	to, err := url.Parse(loopback(port))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	p.counter = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.requests.Add(1)
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = p.counter.Serve(l) }() // until it is closed
	p.url = "http://" + l.Addr().String() + "/pairs/bench"
	return nil
}

func (p *benchedPair) start(s *pairSite) (err error) {
	dir := filepath.Join(p.g.dir, s.name)
	cluster := fmt.Sprintf("a=%s,b=%s", loopback(p.sites[0].raft), loopback(p.sites[1].raft))
	s.agent, err = p.g.spawn("pair-"+s.name, p.g.binary, "pair", "run", "--arbiter", p.url, "--state-dir", dir+"/state",
		"--telemetry", fmt.Sprintf("127.0.0.1:%d", s.status), "--peer-client", loopback(s.fix), "--log-format", "json", "--",
		p.etcd, "--name", s.name, "--data-dir", dir+"/data", "--log-level", "error",
		"--listen-client-urls", loopback(s.client), "--advertise-client-urls", loopback(s.client),
		"--listen-peer-urls", loopback(s.raft), "--initial-advertise-peer-urls", loopback(s.raft), "--initial-cluster", cluster)
	return err
}

// pairStatus is what of `pair status` is needed here.
type pairStatus struct {
	Serves bool `json:"serves"`
	Etcd   struct {
		PID   int  `json:"pid"`
		Leads bool `json:"leads"`
	} `json:"etcd"`
	Record *struct {
		State string `json:"state"`
	} `json:"record"`
}

func (s *pairSite) ask(ctx context.Context) (pairStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, loopback(s.status)+"/status", nil)
	if err != nil {
		return pairStatus{}, err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return pairStatus{}, err
	}
	defer func() { _ = r.Body.Close() }()
	var st pairStatus
	if r.StatusCode != http.StatusOK {
		return st, fmt.Errorf("status of %s: %s", s.name, r.Status)
	}
	return st, json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&st)
}

// paired waits until both say so and serve.
func (p *benchedPair) paired(ctx context.Context) error {
	return until(ctx, time.Minute, "a pair of two that serve", func() (bool, error) {
		for _, s := range p.sites {
			st, err := s.ask(ctx)
			if err != nil || !st.Serves || st.Record == nil || st.Record.State != "paired" {
				return false, nil
			}
		}
		return true, nil
	})
}

// losses ends sites in turn, the leader's and the follower's, and lets them return.
func (p *benchedPair) losses(ctx context.Context, rounds int) ([]Row, error) {
	times := map[bool][]float64{} // by whether the former leader survives
	var again, edits, restarts []float64
	for i := range rounds {
		loseLeader := i%2 == 0
		if !pause(ctx, 2*time.Second) {
			return nil, ctx.Err()
		}
		l, err := p.lose(ctx, loseLeader)
		if err != nil {
			return nil, err
		}
		times[!loseLeader] = append(times[!loseLeader], l.writable)
		again, edits, restarts = append(again, l.again), append(edits, l.edit), append(restarts, l.restart)
		fmt.Fprintf(os.Stderr, "bench:   leader lost %t: writable after %.0f ms (edit %.0f, start to first write %.0f), paired %.0f ms after the return\n",
			loseLeader, l.writable, l.edit, l.restart, l.again)
	}
	slices.Sort(edits)
	slices.Sort(restarts)
	note := fmt.Sprintf("etcd 3.6, SIGKILL of agent and etcd, worst of %d", rounds/2)
	never := "etcd alone: when the lost member is back"
	return []Row{
		atMost("pair-writable-leader-survives", "ms", slices.Max(times[true]), 7000, note).against(never, nil),
		atMost("pair-writable-leader-lost", "ms", slices.Max(times[false]), 9000, note).against(never, nil),
		within("pair-edit", "ms", quantile(edits, 0.5), 100, fmt.Sprintf("median of %d", rounds)),
		within("pair-start-to-write", "ms", quantile(restarts, 0.5), 2000, fmt.Sprintf("median of %d", rounds)),
		atMost("pair-paired-again", "ms", slices.Max(again), 15000, fmt.Sprintf("worst of %d, a small database on loopback", rounds)),
	}, nil
}

// loss is what the loss of a site took, in milliseconds.
type loss struct{ writable, edit, restart, again float64 }

func (p *benchedPair) lose(ctx context.Context, leader bool) (l loss, err error) {
	var gone, stays *pairSite
	pid := 0
	for _, s := range p.sites {
		st, err := s.ask(ctx)
		if err != nil {
			return l, err
		}
		if st.Etcd.Leads == leader {
			gone, pid = s, st.Etcd.PID
		} else {
			stays = s
		}
	}
	if gone == nil || stays == nil || pid == 0 {
		return l, fmt.Errorf("no single leader")
	}
	_ = syscall.Kill(pid, syscall.SIGKILL) // both at once, as a power loss would
	gone.agent.kill()
	fault := time.Now()
	err = until(ctx, time.Minute, "a write at the survivor", func() (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err := stays.cli.Put(ctx, "bench", "x")
		return err == nil, nil
	})
	if err != nil {
		return l, err
	}
	written := time.Now()
	edited, took, err := lastEdit(stays.agent.log())
	if err != nil {
		return l, err
	}
	l.writable, l.edit, l.restart = millis(written.Sub(fault)), took, millis(written.Sub(edited))
	back := time.Now()
	if err := p.start(gone); err != nil {
		return l, err
	}
	err = p.paired(ctx)
	l.again = millis(time.Since(back))
	return l, err
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// lastEdit finds when an agent last edited the log, and how long that took, in ms.
func lastEdit(log string) (at time.Time, took float64, err error) {
	err = fmt.Errorf("no edit in the log")
	for line := range strings.Lines(log) {
		var e struct {
			Time time.Time `json:"time"`
			Msg  string    `json:"msg"`
			Took int64     `json:"took"` // nanoseconds
		}
		if json.Unmarshal([]byte(line), &e) == nil && strings.HasPrefix(e.Msg, "the log is edited") {
			at, took, err = e.Time, float64(e.Took)/1e6, nil
		}
	}
	return at, took, err
}

// rest measures agents that have nothing to do.
func (p *benchedPair) rest(ctx context.Context, window time.Duration) ([]Row, error) {
	st, err := p.sites[0].ask(ctx)
	if err != nil {
		return nil, err
	}
	pids := []int{p.sites[0].agent.pid(), st.Etcd.PID}
	var before, after [2]reading
	for i, pid := range pids {
		if before[i], err = process(pid); err != nil {
			return nil, err
		}
	}
	if !pause(ctx, 8*time.Second) { // the trials of the arbiter at the start
		return nil, ctx.Err()
	}
	asked := p.requests.Load()
	if !pause(ctx, window) {
		return nil, ctx.Err()
	}
	asked = p.requests.Load() - asked
	for i, pid := range pids {
		if after[i], err = process(pid); err != nil {
			return nil, err
		}
	}
	cpu := func(i int) float64 { return 100 * (after[i].cpu - before[i].cpu) / window.Seconds() }
	etcdRSS, etcdCPU := after[1].private, cpu(1)
	each := float64(asked) / 2 / window.Seconds() * 10
	return []Row{
		atMost("pair-rss", "MB", after[0].private, 35, fmt.Sprintf("RssAnon+RssShmem of an agent; VmRSS %.1f MB", after[0].rss)).against("the etcd beside it", &etcdRSS),
		atMost("pair-cpu", "%", cpu(0), 2, fmt.Sprintf("of a core, over %s at rest", window)).against("the etcd beside it", &etcdCPU),
		atMost("pair-arbiter-requests", "per 10 s", each, 1, fmt.Sprintf("of each agent, over %s at rest", window)),
	}, nil
}

// end ends everything, also the members that outlive their agents.
func (p *benchedPair) end() {
	for _, s := range p.sites {
		if s == nil {
			continue
		}
		if s.cli != nil {
			_ = s.cli.Close()
		}
		if s.agent == nil {
			continue
		}
		if st, err := s.ask(context.Background()); err == nil && st.Etcd.PID > 1 {
			defer func() { _ = syscall.Kill(st.Etcd.PID, syscall.SIGKILL) }() // after the agents, which would start it again
		}
		s.agent.kill()
	}
	p.arbiter.kill()
	if p.counter != nil {
		_ = p.counter.Close()
	}
}

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	stdslices "slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/internal/access/balance"
	"github.com/holdfast-ha/holdfast/internal/access/slices"
	"github.com/holdfast-ha/holdfast/internal/access/zonal"
	"github.com/holdfast-ha/holdfast/internal/address/vip"
	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/check"
	"github.com/holdfast-ha/holdfast/internal/prove/drill"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
	"github.com/holdfast-ha/holdfast/internal/prove/probe"
	"github.com/holdfast-ha/holdfast/internal/quorum/leader"
	"github.com/holdfast-ha/holdfast/internal/quorum/pair"
)

// asAgent makes the test binary be `holdfast leader`.
const asAgent = "HOLDFAST_E2E_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		root := &cobra.Command{Use: "holdfast"}
		root.AddCommand(leader.Command(), balance.Command(), slices.Command(), zonal.Command(), vip.Command(), pair.Command(), probe.Command(), check.Command(), drill.Command())
		os.Exit(exit.Run(context.Background(), root))
	}
	os.Exit(m.Run())
}

// cluster is three sites with etcd, and agents that a test may start.
type cluster struct {
	t      *testing.T
	lab    *lab.Lab
	agents map[string]*agent
}

// agent is one `holdfast leader run` and what it logged.
type agent struct {
	child *lab.Child
	log   *buffer
}

type buffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// sites of the default lab.
var sites = []string{"a", "b", "c"}

// start makes three sites with etcd running.
func start(t *testing.T, peer string) *cluster {
	t.Helper()
	c := bare(t, peer)
	if err := c.lab.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// bare makes three sites without etcd.
func bare(t *testing.T, peer string) *cluster {
	t.Helper()
	if err := lab.Preflight(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("this suite must not be skipped in CI: %v", err)
		}
		t.Skip(err)
	}
	spec, err := lab.Default("rtt")
	if err != nil {
		t.Fatal(err)
	}
	spec.Peer, spec.Dir = peer, t.TempDir()
	l, err := lab.Start(t.Context(), spec, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close lab: %v", err)
		}
	})
	c := &cluster{t: t, lab: l, agents: map[string]*agent{}}
	t.Cleanup(c.showLogs)
	return c
}

// step is one subtest. The lab may be in any state after one that failed, so the
// others are not begun: one mistake is one failure.
func (c *cluster) step(name string, run func()) {
	outer := c.t
	ok := outer.Run(name, func(t *testing.T) {
		c.t = t
		run()
	})
	if c.t = outer; !ok {
		outer.Fatalf("%s: the rest is left out, since the lab may be in any state", name)
	}
}

// tail is the end of what was logged, without what only a debugger reads: a
// person looks for the last thing that an agent did.
func (b *buffer) tail() string {
	const most = 25
	var kept []string
	for line := range strings.Lines(b.String()) {
		if !strings.Contains(line, `"level":"DEBUG"`) {
			kept = append(kept, line)
		}
	}
	from := max(0, len(kept)-most)
	return fmt.Sprintf("(%d lines before)\n%s", from, strings.Join(kept[from:], ""))
}

// showLogs tells, after a failure, how the agents' logs end.
func (c *cluster) showLogs() {
	if !c.t.Failed() {
		return
	}
	for _, site := range stdslices.Sorted(maps.Keys(c.agents)) {
		c.t.Logf("agent %s: %s", site, c.agents[site].log.tail())
	}
}

func (c *cluster) member(site string) *lab.Member {
	c.t.Helper()
	m, err := c.lab.Member("main", site)
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// lead forces leadership to a site.
func (c *cluster) lead(site string) {
	c.t.Helper()
	if err := c.lab.MoveLeader(c.within(20*time.Second), "main", site); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(c.t.Context(), d)
	c.t.Cleanup(cancel)
	return ctx
}

// run starts the agent of a site with settings in a file; flags come on top.
func (c *cluster) run(site string, flags ...string) {
	c.t.Helper()
	m := c.member(site)
	pki, ip := m.PKI(), m.Node().IP()
	settings := fmt.Sprintf(`etcd:
  endpoints: [%q]
  ca: %s
  cert: %s
  key: %s
  peer: {ca: %s, cert: %s, key: %s}
zone: %s
mesh: {listen: "%s:2384", port: 2384}
log: {format: json, level: debug}
`, m.ClientURL(), pki.CA, pki.ClientCert, pki.ClientKey, pki.CA, pki.PeerCert, pki.PeerKey, site, ip)
	path := filepath.Join(c.t.TempDir(), "leader.yaml")
	if err := os.WriteFile(path, []byte(settings), 0o600); err != nil {
		c.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	c.agents[site] = c.spawn(m, "agent-"+site, append([]string{self, "leader", "run", "--config", path}, flags...))
}

func (c *cluster) runAll(flags ...string) {
	for _, site := range sites {
		c.run(site, flags...)
	}
}

// status asks the agent of a site what it knows.
func (c *cluster) status(site string) (leader.Status, error) {
	var s leader.Status
	conn, err := c.member(site).Node().DialContext(c.t.Context(), "tcp", "127.0.0.1:9384")
	if err != nil {
		return s, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := fmt.Fprint(conn, "GET /status HTTP/1.0\r\n\r\n"); err != nil {
		return s, err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return s, err
	}
	_, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	return s, json.Unmarshal([]byte(body), &s)
}

// until waits for a condition, and fails the test with its last word.
func (c *cluster) until(what string, d time.Duration, holds func() error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), d)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			c.t.Fatalf("%s: not within %s: %v", what, d, err)
		case <-tick.C:
		}
	}
}

// settled waits until every agent sees every other with a fresh row.
func (c *cluster) settled() {
	c.t.Helper()
	c.until("agents know one another", 20*time.Second, func() error {
		for _, site := range sites {
			s, err := c.status(site)
			if err != nil {
				return err
			}
			if len(s.Members) != len(sites) {
				return fmt.Errorf("agent %s knows %d members", site, len(s.Members))
			}
			for _, m := range s.Members {
				if !m.Known || !m.Reachable || m.AgeMS > 8000 {
					return fmt.Errorf("agent %s on %s: %+v", site, m.Name, m)
				}
				for to, l := range m.Links {
					if l.State != "up" {
						return fmt.Errorf("agent %s: link %s-%s %s", site, m.Name, to, l.State)
					}
				}
			}
		}
		return nil
	})
}

// answers puts and reads linearizably through the member of a site.
func (c *cluster) answers(site string) error {
	cli, err := c.member(site).Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(c.t.Context()), time.Second)
	defer cancel()
	if _, err := cli.Put(ctx, "/e2e/"+site, "x"); err != nil {
		return fmt.Errorf("put at %s: %w", site, err)
	}
	if _, err := cli.Get(ctx, "/e2e/"+site); err != nil {
		return fmt.Errorf("read at %s: %w", site, err)
	}
	return nil
}

func (c *cluster) allAnswer() error {
	for _, site := range sites {
		if err := c.answers(site); err != nil {
			return err
		}
	}
	return nil
}

// moves counts the moves that agents have reported.
func (c *cluster) moves() int {
	n := 0
	for _, a := range c.agents {
		n += strings.Count(a.log.String(), `"msg":"leadership moved"`)
	}
	return n
}

// errElsewhere says that another member leads, or none.
var errElsewhere = errors.New("the leader is elsewhere")

// leads tells whether the member of a site leads by its own word; an error
// other than errElsewhere means that it could not be asked.
func (c *cluster) leads(site string) error {
	s, err := c.member(site).Status(c.within(2 * time.Second))
	if err != nil {
		return err
	}
	if s.Leader != s.ID {
		return fmt.Errorf("%s does not lead, %x does: %w", site, s.Leader, errElsewhere)
	}
	return nil
}

// nightly leaves a suite to `make nightly` that has yet to run ten times in a row
// beside other load: its bars are milliseconds.
func nightly(t *testing.T) {
	t.Helper()
	if os.Getenv("HOLDFAST_E2E_ADDRESS") == "" {
		t.Skip("HOLDFAST_E2E_ADDRESS=1 runs it")
	}
}

// byNight is how often something is done by `make nightly`, and otherwise.
func byNight(night, day int) int {
	if os.Getenv("HOLDFAST_E2E_ADDRESS") == "" {
		return day
	}
	return night
}

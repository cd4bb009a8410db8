package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/pki"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

const (
	insideRole  = "balance-inside"
	backendRole = "balance-backend"
)

// balanceRole finds what a process that the bench has started from its own
// program is for; nil for the bench itself.
func balanceRole(args []string) func(context.Context, []string) error {
	if len(args) == 0 {
		return nil
	}
	return map[string]func(context.Context, []string) error{
		insideRole: balanceInside, backendRole: runBackend, callRole: runCalls,
	}[args[0]]
}

// balanceGroup measures the balancer beside HAProxy, one group of rows or, for
// "", all. Everything runs in a network namespace of its own: addresses,
// packet filter and ports are nobody else's.
func balanceGroup(group string) func(context.Context, bool) ([]Row, error) {
	return func(ctx context.Context, quick bool) ([]Row, error) {
		dir, err := os.MkdirTemp("", "holdfast-balance-")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, self, insideRole, "--dir", dir, "--group", group, fmt.Sprintf("--quick=%t", quick))
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = 10 * time.Second
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		failed := apart(cmd)
		var rows []Row
		if err := json.Unmarshal(out.Bytes(), &rows); err != nil {
			return nil, errors.Join(failed, fmt.Errorf("read rows: %w", err))
		}
		return rows, failed
	}
}

// apart runs cmd in a new network namespace.
func apart(cmd *exec.Cmd) error {
	s, err := space.New()
	if err != nil {
		return fmt.Errorf("make network namespace: %w; run as root", err)
	}
	defer func() { _ = s.Close() }()
	p, err := space.NewSpawner(s)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Start(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}

// ground is what all rows stand on.
type ground struct {
	dir    string
	binary string // ours
	pki    pki.Files
	quick  bool
	ports  int // last port given out
}

// group makes some rows that are measured together.
type group struct {
	name string
	run  func(*ground, context.Context) ([]Row, error)
}

var balanceGroups = []group{
	{"killed", (*ground).killed},
	{"calm", (*ground).calm},
	{"frozen", (*ground).frozen},
	{"blackholed", (*ground).blackholed},
	{"unready", (*ground).unready},
	{"down", (*ground).down},
	{"reload", (*ground).reloaded},
	{"upgrade", (*ground).upgraded},
	{"rss", (*ground).memory},
	{"short", (*ground).short},
	{"requests", (*ground).requests},
	{"bulk", (*ground).bulk},
	{"latency", (*ground).latency},
}

// balanceInside runs in the namespace and prints the rows as JSON. A group
// that fails does not take the others with it.
func balanceInside(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(insideRole, flag.ContinueOnError)
	dir := flags.String("dir", "", "directory for files")
	only := flags.String("group", "", "run one group")
	quick := flags.Bool("quick", false, "fewer repetitions")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	g, err := newGround(*dir, *quick)
	if err != nil {
		return err
	}
	rows, failed, found := []Row{}, []error{}, false
	for _, gr := range balanceGroups {
		if (*only != "" && gr.name != *only) || ctx.Err() != nil {
			continue
		}
		found = true
		fmt.Fprintf(os.Stderr, "bench: balance-%s\n", gr.name)
		got, err := gr.run(g, ctx)
		if err != nil {
			failed = append(failed, fmt.Errorf("balance-%s: %w", gr.name, err))
		}
		rows = append(rows, got...)
	}
	if !found {
		failed = append(failed, fmt.Errorf("--only balance-%s: no such group of rows", *only))
	}
	if err := json.NewEncoder(os.Stdout).Encode(rows); err != nil {
		return err
	}
	return errors.Join(append(failed, ctx.Err())...)
}

func newGround(dir string, quick bool) (*ground, error) {
	g := &ground{dir: dir, quick: quick, ports: 7000}
	var err error
	if g.binary, err = filepath.Abs("bin/holdfast"); err != nil {
		return nil, err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, fmt.Errorf("find loopback: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return nil, fmt.Errorf("bring loopback up: %w", err)
	}
	// Ports above those that anything here listens on.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("20000 65000"), 0o644); err != nil {
		return nil, fmt.Errorf("set port range: %w", err)
	}
	ca, err := pki.NewAuthority(filepath.Join(dir, "pki"), "balance-bench", time.Now())
	if err != nil {
		return nil, err
	}
	g.pki, err = ca.Issue(filepath.Join(dir, "pki", "backend"), "kubernetes", addressOf(1), addressOf(2), addressOf(3))
	return g, err
}

// port gives out a port that was not used before, so that what a process
// before left behind does not matter.
func (g *ground) port() int {
	g.ports++
	return g.ports
}

// times picks the number of repetitions.
func (g *ground) times(full int) int {
	if g.quick {
		return 1
	}
	return full
}

// window picks a length of time.
func (g *ground) window(full, quick time.Duration) time.Duration {
	if g.quick {
		return quick
	}
	return full
}

// load is the load average of the machine, for the notes: it is shared.
func load() string {
	b, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(b), " ")
	return "load " + one
}

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// benchRest measures agents that have nothing to do: memory, processor time
// and writes to etcd.
func benchRest(ctx context.Context, quick bool) ([]Row, error) {
	watch := 2 * time.Minute
	if quick {
		watch = 15 * time.Second
	}
	r, err := newRest(ctx)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if !pause(ctx, 15*time.Second) { // start-up is not rest
		return nil, ctx.Err()
	}
	before, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	if !pause(ctx, watch) {
		return nil, ctx.Err()
	}
	after, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("3 agents, %s", watch)
	perMember := float64(after.revision-before.revision) / float64(len(r.agents)) / watch.Seconds() * 5
	return []Row{
		atMost("leader-rest-private-memory", "MB", after.private, 30, fmt.Sprintf("%s; RssAnon+RssShmem of the largest, VmRSS %.0f MB", note, after.rss)),
		atMost("leader-rest-cpu", "% of a core", 100*(after.cpu-before.cpu)/watch.Seconds()/float64(len(r.agents)), 1, note),
		atMost("leader-rest-writes", "per 5 s and member", perMember, 1, note),
	}, nil
}

// rest is a lab with an agent beside each member.
type rest struct {
	dir    string
	lab    *lab.Lab
	agents []*lab.Child
}

func newRest(ctx context.Context, flags ...string) (*rest, error) {
	spec, err := lab.Default("rtt")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-rest-")
	if err != nil {
		return nil, err
	}
	spec.Dir = dir
	if spec.Peer == "" {
		spec.Peer = "3.6"
	}
	l, err := lab.Start(ctx, spec, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		return nil, err
	}
	r := &rest{dir: dir, lab: l}
	if err := l.StartEtcd(ctx); err != nil {
		r.close()
		return nil, err
	}
	for _, site := range []string{"a", "b", "c"} {
		if err := r.start(ctx, site, flags...); err != nil {
			r.close()
			return nil, err
		}
	}
	return r, nil
}

func (r *rest) close() {
	_ = r.lab.Close()
	_ = os.RemoveAll(r.dir)
}

func (r *rest) start(ctx context.Context, site string, flags ...string) error {
	m, err := r.lab.Member("main", site)
	if err != nil {
		return err
	}
	binary, err := filepath.Abs("bin/holdfast")
	if err != nil {
		return err
	}
	pki := m.PKI()
	child, err := m.Node().Spawn(ctx, lab.Process{Name: "agent-" + site, Argv: append([]string{
		binary, "leader", "run", "--endpoint", m.ClientURL(), "--ca", pki.CA, "--cert", pki.ClientCert, "--key", pki.ClientKey,
		"--peer-ca", pki.CA, "--peer-cert", pki.PeerCert, "--peer-key", pki.PeerKey, "--zone", site,
		"--mesh-listen", m.Node().IP().String() + ":2384",
	}, flags...)})
	if err != nil {
		return err
	}
	r.agents = append(r.agents, child)
	return nil
}

// reading is what the agents have used: memory of the largest in MB, seconds
// of processor of all, and etcd's revision.
type reading struct {
	private, rss, cpu float64
	revision          int64
}

func (r *rest) read(ctx context.Context) (reading, error) {
	var sum reading
	for _, a := range r.agents {
		one, err := process(a.Pid())
		if err != nil {
			return sum, err
		}
		sum.private, sum.rss, sum.cpu = max(sum.private, one.private), max(sum.rss, one.rss), sum.cpu+one.cpu
	}
	s, err := r.lab.Status(ctx, "main", "a")
	sum.revision = s.Revision
	return sum, err
}

// ticks is the kernel's USER_HZ, 100 on every Linux that Go runs on.
const ticks = 100

// process reads what one process has used.
func process(pid int) (reading, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	f, err := os.Open(filepath.Join(dir, "status"))
	if err != nil {
		return reading{}, err
	}
	defer func() { _ = f.Close() }()
	var r reading
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		kb, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
		switch name {
		case "RssAnon", "RssShmem":
			r.private += kb / 1024
		case "VmRSS":
			r.rss = kb / 1024
		}
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return r, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	for _, i := range []int{11, 12} { // utime and stime, proc(5)
		t, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return r, err
		}
		r.cpu += t / ticks
	}
	return r, nil
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/base/realtime"
	"github.com/holdfast-ha/holdfast/internal/prove/lab/frr"
)

// yard is what all rows about held addresses stand on.
type yard struct {
	dir    string
	binary string // ours
	quick  bool
	leave  func() // the class of processes that the client is in
}

// yardGroup makes some rows that are measured together.
type yardGroup struct {
	name string
	run  func(*yard, context.Context) ([]Row, error)
}

var vipGroups = []yardGroup{
	{"silent-100ms", (*yard).silent100},
	{"silent-10ms", (*yard).silent10},
	{"silent-1s", (*yard).silent1000},
	{"handover", (*yard).handover},
	{"killed", (*yard).killed},
	{"stopped", (*yard).stopped},
	{"apiserver-dead", (*yard).apiserverDead},
	{"apiserver-hung", (*yard).apiserverHung},
	{"lease-silent", (*yard).leaseSilent},
	{"lease-silent-5-3-1", (*yard).leaseSilentQuick},
	{"lease-handover", (*yard).leaseHandover},
	{"api-cut", (*yard).apiCut},
	{"api-down", (*yard).apiDown},
	{"rest", (*yard).atRest},
	{"bgp", (*yard).bgpDeath},
	{"pair", (*yard).pair},
	{"loss", (*yard).loss},
}

// vipGroup measures holders of an address beside their peers, one group of rows
// or, for "", all. Every machine is a network namespace on one segment; what is
// measured is what a client on that segment sees.
func vipGroup(only string) func(context.Context, bool) ([]Row, error) {
	return func(ctx context.Context, quick bool) ([]Row, error) {
		y, err := newYard(quick)
		if err != nil {
			return nil, err
		}
		defer func() { y.leave(); _ = os.RemoveAll(y.dir) }()
		rows, failed, found := []Row{}, []error{}, false
		for _, g := range vipGroups {
			if (only != "" && g.name != only) || ctx.Err() != nil {
				continue
			}
			found = true
			fmt.Fprintf(os.Stderr, "bench: vip-%s\n", g.name)
			got, err := g.run(y, ctx)
			if err != nil {
				failed = append(failed, fmt.Errorf("vip-%s: %w", g.name, err))
			}
			rows = append(rows, got...)
		}
		if !found {
			failed = append(failed, fmt.Errorf("--only vip-%s: no such group of rows", only))
		}
		return rows, errors.Join(append(failed, ctx.Err())...)
	}
}

func newYard(quick bool) (*yard, error) {
	for _, tool := range []string{"keepalived", "nft", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%w; scripts/setup installs it", err)
		}
	}
	if err := frr.Preflight(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-vip-")
	if err != nil {
		return nil, err
	}
	// The client must not wait for those it watches. They are ordinary processes.
	leave, err := realtime.Enter(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench:   the client runs as other processes do: %v\n", err)
	}
	binary, err := filepath.Abs("bin/holdfast")
	return &yard{dir: dir, binary: binary, quick: quick, leave: leave}, err
}

// times picks the number of repetitions.
func (y *yard) times(full int) int {
	if y.quick {
		return 1
	}
	return full
}

// peer finds a program that scripts/peers has built.
func peer(name string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "holdfast", "peers", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w; make peers builds it", err)
	}
	return path, nil
}

// words joins what a note is made of.
func words(all ...string) string { return strings.Join(all, "; ") }

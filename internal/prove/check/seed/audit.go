package seed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/audit"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// Result is an audit of a seeding.
type Result struct {
	audit.Report
	// Code is the program's.
	Code int
	// Args are those that it was called with.
	Args []string
}

// Audit makes a seeding, audits it and takes it away again.
func (l *Lab) Audit(ctx context.Context, s Seeding) (r Result, err error) {
	l.runs++
	dir := filepath.Join(l.dir, fmt.Sprint("run-", l.runs))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return r, fmt.Errorf("seed %s: %w", s.Rule, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("seed %s/%s: %w", s.Rule, s.Twin, err)
		}
	}()
	defer os.RemoveAll(dir) //nolint:errcheck // removed with the lab
	args := []string{"check", "--json"}
	if s.live() {
		undo, flags, err := l.bringUp(ctx, s, dir)
		defer func() {
			// Also after an interruption: the lab is somebody else's then.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			if undoErr := undo(ctx); undoErr != nil {
				l.log.Error("lab cannot be made as it was", "rule", s.Rule, "error", undoErr)
			}
		}()
		if err != nil {
			return r, err
		}
		args = append(args, flags...)
	}
	targets, err := l.machines(ctx, s, dir)
	if err != nil {
		return r, err
	}
	return l.check(ctx, dir, append(args, targets...))
}

// bringUp makes all that is asked over the network, and returns how to end it and the
// flags that lead to it.
func (l *Lab) bringUp(ctx context.Context, s Seeding, dir string) (undo func(context.Context) error, flags []string, err error) {
	var undos []func(context.Context) error
	undo = func(ctx context.Context) error {
		var errs []error
		for _, u := range slices.Backward(undos) {
			errs = append(errs, u(ctx))
		}
		return errors.Join(errs...)
	}
	flags = []string{"--kubeconfig", l.kubeconfig}
	end, err := l.answering(s.answers())
	undos = append(undos, func(context.Context) error { return end() })
	if err != nil {
		return undo, nil, err
	}
	remove, err := l.seeded(ctx, s.Objects)
	undos = append(undos, remove)
	if err != nil {
		return undo, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Clients)) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := write(file, s.Clients[name]); err != nil {
			return undo, nil, err
		}
		flags = append(flags, "--client", file)
	}
	if len(s.Members) > 0 {
		members, err := l.members(ctx, s.Members, dir)
		undos = append(undos, func(context.Context) error { return members.end() })
		if err != nil {
			return undo, nil, err
		}
		flags = append(flags, members.flags()...)
	}
	return undo, flags, nil
}

// machines makes machines, and returns the targets that stand for them: the root of
// one, or bundles of several.
func (l *Lab) machines(ctx context.Context, s Seeding, dir string) ([]string, error) {
	var targets []string
	for _, node := range slices.Sorted(maps.Keys(s.Machines)) {
		root := filepath.Join(dir, "machines", node)
		if err := write(filepath.Join(root, "etc/hostname"), []byte(node+"\n")); err != nil {
			return nil, err
		}
		for name, data := range s.Machines[node] {
			if strings.HasPrefix(name, "!") {
				continue // what a program prints there is seen to below
			}
			if err := write(filepath.Join(root, filepath.FromSlash(name)), data); err != nil {
				return nil, err
			}
		}
		if routes(s.Machines[node]) {
			bundle, err := l.router(ctx, s.Machines[node], dir, root, node)
			if err != nil {
				return nil, err
			}
			targets = append(targets, bundle)
			continue
		}
		if len(s.Machines) == 1 && !s.live() {
			return []string{"--node", root}, nil
		}
		bundle := filepath.Join(dir, node+".tgz")
		if out, err := l.holdfast(ctx, "check", "collect", "--node", "--root", root, "-o", bundle); err != nil {
			return nil, fmt.Errorf("collect %s: %w: %s", node, err, out)
		}
		targets = append(targets, bundle)
	}
	return targets, nil
}

// router runs FRR on a machine for as long as it is asked, and returns its bundle.
func (l *Lab) router(ctx context.Context, files map[string][]byte, dir, root, node string) (string, error) {
	r, err := startRouters(ctx, files, filepath.Join(dir, "routers-"+node))
	defer func() {
		if endErr := r.end(); endErr != nil {
			l.log.Error("routers do not end", "machine", node, "error", endErr)
		}
	}()
	if err != nil {
		return "", err
	}
	return r.collect(l.options, root, node)
}

func write(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return nil
}

// check runs an audit and reads its report.
func (l *Lab) check(ctx context.Context, dir string, args []string) (Result, error) {
	file := filepath.Join(dir, "report.json")
	r := Result{Args: args}
	said, err := l.holdfast(ctx, append(args, "-o", file)...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		r.Code = exit.ExitCode()
	} else if err != nil {
		return r, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return r, fmt.Errorf("holdfast %s: no report: %s", strings.Join(args, " "), said)
	}
	if err := json.Unmarshal(data, &r.Report); err != nil {
		return r, fmt.Errorf("holdfast %s: read report: %w", strings.Join(args, " "), err)
	}
	return r, nil
}

// checkPatience bounds one run of the program; a probe that is not answered takes 2 s.
const checkPatience = 90 * time.Second

// holdfast runs the program on the stand.
func (l *Lab) holdfast(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	child, err := l.stand.Spawn(ctx, lab.Process{
		Name: "check", Argv: append(slices.Clone(l.options.Program), args...), Env: l.options.Env, Stdout: &out, Stderr: &out,
	})
	if err != nil {
		return "", err
	}
	late := time.NewTimer(checkPatience)
	defer late.Stop()
	select {
	case <-child.Done():
		return out.String(), child.Err()
	case <-late.C:
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return "", errors.Join(fmt.Errorf("holdfast %s does not end", strings.Join(args, " ")), child.Stop(ctx, 0))
}

package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/lab/space"
)

// program is a server of a node that can be ended and started again.
type program struct {
	node *Node
	name string // of its processes and their log
	argv []string
	// by starts the program, nil for the node's own spawner.
	by *space.Spawner

	mu    sync.Mutex
	child *Child
}

// Node is where the program runs.
func (p *program) Node() *Node { return p.node }

// Argv is the command line.
func (p *program) Argv() []string { return slices.Clone(p.argv) }

// Child is the process, nil when it does not run.
func (p *program) Child() *Child {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child == nil {
		return nil
	}
	select {
	case <-p.child.done:
		return nil
	default:
		return p.child
	}
}

// Launch starts the program unless it runs, and does not wait for it.
func (p *program) Launch(ctx context.Context) error {
	if p.Child() != nil {
		return nil
	}
	by := cmp.Or(p.by, p.node.spawner)
	child, err := p.node.lab.spawn(ctx, p.node.name, by, Process{Name: p.name, Argv: p.argv})
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.child = child
	p.mu.Unlock()
	return nil
}

// await asks until ready returns nil or the process has ended. noun is what
// errors call the program.
func (p *program) await(ctx context.Context, noun string, ready func() error) error {
	log := p.node.lab.logPath(p.name)
	child := p.Child()
	if child == nil {
		return fmt.Errorf("%s %s does not run: see %s", noun, p.node.name, log)
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-child.Done():
			return fmt.Errorf("%s %s has ended (%v): see %s", noun, p.node.name, child.Err(), log)
		case <-ctx.Done():
			return fmt.Errorf("wait for %s %s: %w", noun, p.node.name, errors.Join(ctx.Err(), err))
		}
	}
}

// end stops the process within grace, or kills it when grace is 0.
func (p *program) end(ctx context.Context, grace time.Duration) error {
	child := p.Child()
	if child == nil {
		return nil
	}
	return child.Stop(ctx, grace)
}

package lab

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
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
	// revive is how long after it has ended by itself, or by somebody's signal,
	// the program is started again; 0 leaves it ended.
	revive time.Duration

	mu    sync.Mutex
	child *Child
	// wanted says that the last word was to launch the program, not to end it.
	wanted bool
}

// Node is where the program runs.
func (p *program) Node() *Node { return p.node }

// Argv is the command line.
func (p *program) Argv() []string { return slices.Clone(p.argv) }

// Child is the process, nil when it does not run.
func (p *program) Child() *Child {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running()
}

// running is Child for who holds mu.
func (p *program) running() *Child {
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() != nil {
		return nil
	}
	p.wanted = true
	return p.spawn(ctx)
}

// spawn starts the process, and its successors where the program is to live on.
func (p *program) spawn(ctx context.Context) error {
	by := cmp.Or(p.by, p.node.spawner)
	child, err := p.node.lab.spawn(ctx, p.node.name, by, Process{Name: p.name, Argv: p.argv})
	if err != nil {
		return err
	}
	p.child = child
	if p.revive > 0 {
		go p.succeed(child)
	}
	return nil
}

// succeed waits for the end of a process and starts the next one, unless the
// program was ended meanwhile, or the lab.
func (p *program) succeed(last *Child) {
	<-last.Done()
	pause := time.NewTimer(p.revive)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-p.node.lab.children.over:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.wanted || p.child != last {
		return
	}
	log := p.node.lab.log.With("program", p.name, "last", fmt.Sprint(last.Err()))
	if err := p.spawn(context.Background()); err != nil {
		log.Error("program has ended and cannot be started again", "error", err)
		return
	}
	log.Warn("program had ended and was started again")
}

// await asks until ready returns nil or the process has ended for good. noun
// is what errors call the program.
func (p *program) await(ctx context.Context, noun string, ready func() error) error {
	log := p.node.lab.logPath(p.name)
	p.mu.Lock()
	child, coming := p.running(), p.wanted && p.revive > 0
	p.mu.Unlock()
	if child == nil && !coming {
		return fmt.Errorf("%s %s does not run: see %s", noun, p.node.name, log)
	}
	var ended <-chan struct{}
	if !coming {
		ended = child.Done()
	}
	err := poll(ctx, 50*time.Millisecond, ended, ready)
	switch {
	case errors.Is(err, errEnded):
		return fmt.Errorf("%s %s has ended (%v): see %s, which ends in: %s", noun, p.node.name, child.Err(), log, lastLine(log))
	case err != nil:
		return fmt.Errorf("wait for %s %s (its log is %s): %w", noun, p.node.name, log, err)
	}
	return nil
}

// lastLine is the end of a log, for errors that outlive it: a lab that does not
// start removes its directory.
func lastLine(path string) string {
	const most = 500
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	line := bytes.TrimSpace(data)
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	return string(line[:min(len(line), most)])
}

// errEnded is what poll returns when what it polls has ended.
var errEnded = errors.New("ended")

// poll asks until ready returns nil, ended is closed or ctx ends. In the last
// case the error names what was still wrong.
func poll(ctx context.Context, every time.Duration, ended <-chan struct{}, ready func() error) error {
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ended:
			return errEnded
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// end stops the process within grace, or kills it when grace is 0, for good.
func (p *program) end(ctx context.Context, grace time.Duration) error {
	p.mu.Lock()
	p.wanted = false
	child := p.running()
	p.mu.Unlock()
	if child == nil {
		return nil
	}
	return child.Stop(ctx, grace)
}

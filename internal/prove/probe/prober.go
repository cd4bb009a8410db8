package probe

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Prober samples the paths of a Config. It is used once.
type Prober struct {
	paths    []Path
	attempts []attempter
	control  *loopback
}

// New resolves cfg, reads its TLS files and opens the control path's listener.
// The caller must call Run or Once, which let go of all that.
func New(cfg *Config) (*Prober, error) {
	paths, err := cfg.Paths()
	if err != nil {
		return nil, err
	}
	p := &Prober{}
	if !cfg.Control.Off {
		if p.control, err = listenLoopback(); err != nil {
			return nil, err
		}
		paths = append(paths, p.control.path(cfg, paths))
	}
	p.paths = paths
	for i := range paths {
		a, err := newAttempter(&p.paths[i])
		if err != nil {
			p.close()
			return nil, fmt.Errorf("prepare %s: %w", paths[i].Name, err)
		}
		p.attempts = append(p.attempts, a)
	}
	return p, nil
}

// Paths returns the paths in the order of the Config, the control path last.
func (p *Prober) Paths() []Path { return p.paths }

// Run samples until ctx is done and returns when every sample in flight has
// ended and was delivered. Calls of deliver do not overlap; the samples of one
// path come in the order of Seq. A deliver that blocks for long loses ticks.
func (p *Prober) Run(ctx context.Context, deliver func(Sample)) { p.run(ctx, 0, deliver) }

// Once takes one sample of every path.
func (p *Prober) Once(ctx context.Context, deliver func(Sample)) { p.run(ctx, 1, deliver) }

func (p *Prober) run(ctx context.Context, count uint64, deliver func(Sample)) {
	defer p.close()
	var mu sync.Mutex
	var running sync.WaitGroup
	clock := clock{time.Now()}
	for i := range p.paths {
		path := &p.paths[i]
		s := newSampler(path, p.attempts[i].attempt, clock, func(s Sample) {
			mu.Lock()
			defer mu.Unlock()
			deliver(s)
		})
		// Paths are spread over the interval: a burst of all of them every
		// 100 ms would measure itself.
		first := clock.origin.Add(path.Interval * time.Duration(i) / time.Duration(len(p.paths)))
		running.Go(func() { s.run(ctx, first, count) })
	}
	running.Wait()
}

func (p *Prober) close() {
	for _, a := range p.attempts {
		a.close()
	}
	if p.control != nil {
		p.control.close()
	}
}

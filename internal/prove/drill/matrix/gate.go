package matrix

import (
	"context"
	"sync"
)

// Gate opens when everybody who is expected has come or has left.
type Gate struct {
	mu   sync.Mutex
	left int
	open chan struct{}
}

// NewGate expects n.
func NewGate(n int) *Gate {
	g := &Gate{left: n, open: make(chan struct{})}
	if n <= 0 {
		close(g.open)
	}
	return g
}

// Pass is the pass of one of them, which counts once: whether it comes, or ends
// without ever having come.
type Pass struct {
	gate *Gate
	once sync.Once
}

// Pass gives one out.
func (g *Gate) Pass() *Pass { return &Pass{gate: g} }

// Come waits for the others. The error is that of ctx.
func (p *Pass) Come(ctx context.Context) error {
	p.Leave()
	select {
	case <-p.gate.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Leave says that nobody need wait for the holder of the pass.
func (p *Pass) Leave() {
	p.once.Do(func() {
		p.gate.mu.Lock()
		defer p.gate.mu.Unlock()
		if p.gate.left--; p.gate.left == 0 {
			close(p.gate.open)
		}
	})
}

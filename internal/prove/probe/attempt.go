package probe

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// outcome is what one attempt found.
type outcome struct {
	err         error
	code        int
	local, peer string
	// hops is not nil where the kernel said where a route leads.
	hops []string
	by   string
	// key and revision are those of a write; revision is 0 unless it was acknowledged.
	key      string
	revision int64
}

// attempter makes attempts on one path. Attempts may overlap.
type attempter interface {
	// attempt makes exactly one attempt and ends with ctx.
	attempt(ctx context.Context) outcome
	// close lets go of what attempts share, after the last of them.
	close()
}

// newAttempter returns the attempter of a path, with its TLS files read.
func newAttempter(p *Path) (attempter, error) {
	switch p.Kind {
	case KindHTTP:
		return newHTTP(p)
	case KindConnect, KindEcho:
		return newTCP(p), nil
	case KindDatagram:
		return newDatagram(p), nil
	case KindPut, KindGet, KindSerializable, KindWrite:
		return newEtcd(p)
	case KindWatch:
		return newWatch(p)
	case KindRoute:
		return newRoute(p)
	}
	return nil, fmt.Errorf("kind %q has no prober", p.Kind)
}

// fresh makes every attempt on a link of its own.
type fresh[L link] struct {
	dial func(context.Context) (L, error)
	use  func(context.Context, L) outcome
	to   string
}

func (f *fresh[L]) attempt(ctx context.Context) outcome {
	l, err := f.dial(ctx)
	if err != nil {
		return outcome{err: err, peer: f.to}
	}
	defer l.close()
	return f.use(ctx, l)
}

func (f *fresh[L]) close() {}

// maxMoves bounds how often a sample may find its link retired before its
// request was sent, and move to the next: over a server that closes after each
// answer as many as wait for their turn, each time with one less.
const maxMoves = 100

// reused makes every attempt on one kept link. It serves streams too: their
// link is the stream, and an attempt waits for its progress.
type reused[L link] struct {
	kept kept[L]
	use  func(context.Context, L) outcome
	to   string
}

func (r *reused[L]) attempt(ctx context.Context) outcome {
	for moves := 0; ; moves++ {
		l, err := r.kept.get(ctx)
		if err != nil {
			return outcome{err: err, peer: r.to}
		}
		o := r.use(ctx, l)
		if o.err != nil {
			r.kept.drop(l)
		}
		if !errors.Is(o.err, errRetired) || moves == maxMoves {
			return o
		}
	}
}

func (r *reused[L]) close() { r.kept.close() }

// attempts combines a dial and a use by the mode of the path.
func attempts[L link](p *Path, dial func(context.Context) (L, error), use func(context.Context, L) outcome) attempter {
	if p.Mode == ModeNew {
		return &fresh[L]{dial: dial, use: use, to: p.address()}
	}
	return &reused[L]{kept: kept[L]{dial: dial, timeout: p.Timeout}, use: use, to: p.address()}
}

// patience is how long a stream may owe progress before it is given up: two
// timeouts, so that one lost sign is not yet the end, and no less than a kept
// connection gets.
func (p *Path) patience() time.Duration { return max(giveUpAfter, 2*p.Timeout) }

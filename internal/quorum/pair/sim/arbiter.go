package sim

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
)

// way is what comes of requests to the arbiter.
type way uint8

const (
	open   way = iota
	hang       // no answer comes; the request may be done later
	refuse     // there is an error at once, and nothing is done
	deny       // the credentials are refused
	slow       // some take long, some are lost, some answers are
)

// call is one request to the arbiter.
type call struct {
	swap    bool
	was     arbiter.Version
	data    []byte
	version arbiter.Version
	err     error
	// silent: its answer is lost.
	silent bool
	site   int8
	task   *task
	serial uint32
}

// requestTimeout is that of the agents.
const requestTimeout = 2 * time.Second

// store is the arbiter as one agent reaches it. The real Client works on it.
type store struct{ a *agent }

func (s store) Name() string { return "arbiter" }
func (s store) Close() error { return nil }

func (s store) Beside(string) (arbiter.Store, error) { return nil, errors.ErrUnsupported }

func (s store) Read(ctx context.Context) ([]byte, arbiter.Version, error) {
	c := s.a.ask(call{}, ctx)
	if c.err != nil {
		return nil, "", c.err
	}
	return c.data, c.version, nil
}

func (s store) Swap(ctx context.Context, was arbiter.Version, data []byte) (arbiter.Version, error) {
	c := s.a.ask(call{swap: true, was: was, data: data}, ctx)
	return c.version, c.err
}

// deadline is the key of that of a request in its context; the context's own
// would go by the machine's clock.
type deadline struct{}

// within is the context of a request to the arbiter.
func (w *World) within(d time.Duration) context.Context {
	return context.WithValue(context.Background(), deadline{}, w.now+d)
}

// ask sends a request and waits.
func (a *agent) ask(c call, ctx context.Context) call {
	w, t := a.w, a.w.running
	c.site, c.task = int8(a.site), t
	silence := arbiter.ErrUnreachable
	if c.swap {
		silence = arbiter.ErrUnknown
	}
	end, _ := ctx.Value(deadline{}).(time.Duration)
	left := end - w.now
	if left <= 0 {
		c.err = arbiter.ErrUnreachable // it is not sent
		return c
	}
	if c.swap {
		left = left * 2 / 3 // as Client leaves time to find out
	}
	t.serial++
	c.serial = t.serial
	w.calls = append(w.calls, c)
	x := int32(len(w.calls) - 1)
	w.route(a, x)
	w.after(left, event{what: evResume, a: int8(a.site), life: a.life, x: t.index, y: t.serial})
	a.yield(t)
	if got := w.calls[x]; got.task == nil {
		return got
	}
	w.calls[x].task = nil
	c.err = silence
	return c
}

// route lets a request travel.
func (w *World) route(a *agent, x int32) {
	fast := w.shape.Fast
	out, back := w.between(fast/10, fast), w.between(fast/10, fast)
	c := &w.calls[x]
	switch way := w.way(a.site); way {
	case refuse, deny:
		c.err = arbiter.ErrUnreachable
		if way == deny {
			c.err = arbiter.ErrDenied
		}
		w.after(out, event{what: evAnswer, a: int8(a.site), life: a.life, x: x})
		return
	case hang:
		if w.chance(0.6) {
			return
		}
		out, c.silent = w.between(fast, 40*time.Second), true
	case slow:
		switch w.intn(5) {
		case 0:
			return
		case 1:
			out = w.between(fast, 20*time.Second)
		case 2:
			c.silent = true
		case 3:
			back = w.between(fast, 10*time.Second)
		}
	}
	w.after(out, event{what: evLand, a: int8(a.site), life: a.life, x: x, y: uint32(back / time.Microsecond)})
}

func (w *World) way(site int) way {
	if w.arbiter != open {
		return w.arbiter
	}
	return w.sites[site].arbiter
}

// land is a request reaching the arbiter. It happens whatever has become of who
// sent it.
func (w *World) land(e event) {
	c := &w.calls[e.x]
	switch {
	case !c.swap:
		c.data, c.version = w.object, w.version()
		w.judge.reading(w, int(c.site), e.life, c.data)
	case c.was != w.version() && !w.bent.liar:
		c.err = arbiter.ErrLost
	default:
		w.judge.swapped(w, int(c.site), e.life, c.data)
		w.past = w.record
		w.object, w.record = restamp(w, c.data), decode(c.data)
		w.writes++
		c.version = w.version()
		if w.chance(0.05) {
			c.version = "" // only a read would tell
		}
	}
	if !c.silent {
		w.after(time.Duration(e.y)*time.Microsecond, event{what: evAnswer, a: e.a, life: e.life, x: e.x})
	}
}

func (w *World) version() arbiter.Version {
	if w.object == nil {
		return ""
	}
	return arbiter.Version(strconv.Itoa(w.writes))
}

// restamp has the time in a record jump by centuries: nothing may go by it.
func restamp(w *World, data []byte) []byte {
	key := []byte(`"time":"`)
	data = bytes.Clone(data)
	if i := bytes.Index(data, key); i >= 0 {
		data[i+len(key)] = byte('1' + w.intn(8))
		data[i+len(key)+1] = byte('0' + w.intn(10))
	}
	return data
}

// answer wakes who waits for a request.
func (w *World) answer(a *agent, x int32) {
	c := &w.calls[x]
	t := c.task
	if t == nil || t.serial != c.serial {
		return
	}
	c.task = nil
	w.resume(a, t)
}

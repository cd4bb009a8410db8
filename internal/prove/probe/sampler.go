package probe

import (
	"context"
	"time"
)

// undelivered is how many finished samples of a path may wait for a slow sink,
// on top of those in flight, before ticks are lost: a minute and a half at the
// default interval.
const undelivered = 1000

// clock gives wall-clock times from one reading at the start plus the
// monotonic clock, so that differences are exact within a run.
type clock struct{ origin time.Time }

func (c clock) now() time.Time { return c.origin.Add(time.Since(c.origin)) }

// sampler runs the open loop of one path.
type sampler struct {
	path    *Path
	attempt func(context.Context) outcome
	clock   clock
	// deliver gets the samples in the order of Seq, from one goroutine.
	deliver func(Sample)

	flying chan struct{}        // a token per sample in flight
	queue  chan (<-chan Sample) // in the order of Seq
}

func newSampler(p *Path, attempt func(context.Context) outcome, c clock, deliver func(Sample)) *sampler {
	return &sampler{
		path: p, attempt: attempt, clock: c, deliver: deliver,
		flying: make(chan struct{}, p.limit()),
		queue:  make(chan (<-chan Sample), p.limit()+undelivered),
	}
}

// run samples on every tick from first on until ctx is done, at most count
// times if that is not 0, and returns when all samples are delivered.
func (s *sampler) run(ctx context.Context, first time.Time, count uint64) {
	delivered := make(chan struct{})
	go func() {
		defer close(delivered)
		for result := range s.queue {
			s.deliver(<-result)
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for seq := uint64(0); count == 0 || seq < count; seq++ {
		tick := first.Add(time.Duration(seq) * s.path.Interval)
		timer.Reset(tick.Sub(s.clock.now()))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		if ctx.Err() != nil {
			break
		}
		s.send(seq, tick)
	}
	close(s.queue)
	<-delivered
}

// send starts the sample of a tick, or loses the tick when as many samples as
// the timeout allows are still in flight or undelivered: that takes a prober
// without processor or a sink that does not read. Late ticks are sent late,
// never dropped, so that every instant has its sample and Lag tells.
func (s *sampler) send(seq uint64, tick time.Time) {
	if len(s.queue) == cap(s.queue) {
		return
	}
	select {
	case s.flying <- struct{}{}:
	default:
		return
	}
	result := make(chan Sample, 1)
	s.queue <- result
	// Sent is taken here, not in the goroutine, so that it rises with Seq even
	// when a starved prober catches up.
	sent := s.clock.now()
	go func() {
		result <- s.sample(seq, tick, sent)
		<-s.flying
	}()
}

// sample makes the attempt. Its context descends from nothing that a stop
// could cancel.
func (s *sampler) sample(seq uint64, tick, sent time.Time) Sample {
	ctx, cancel := context.WithTimeout(context.Background(), s.path.Timeout)
	defer cancel()
	o := s.attempt(ctx)
	done := s.clock.now()
	class := Classify(o.err)
	return Sample{
		Path: s.path.Name, Seq: seq, Scheduled: tick, Sent: sent, Done: done,
		OK: o.err == nil, Class: class, Code: o.code, Error: firstLine(o.err),
		Local: o.local, Peer: o.peer, Hops: o.hops, By: o.by, Key: o.key, Revision: o.revision,
	}
}

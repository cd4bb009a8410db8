package logstore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Timers of a collector.
const (
	// emitEvery is between two lines of a zone.
	emitEvery = 100 * time.Millisecond
	// deliverWithin bounds one delivery, after which it is tried again.
	deliverWithin = 2 * time.Second
	retryAfter    = 500 * time.Millisecond
)

// Bounds of what waits for one store: an hour of lines, sent some at a time.
const (
	maxWaiting = 36000
	batchLines = 500
)

// targets are the stores that a line belongs to: one of the shards, or all
// zones.
func targets(sharded bool, peers []peer, seq uint64) []peer {
	if !sharded {
		return peers
	}
	i := int(seq % uint64(len(peers)))
	return peers[i : i+1]
}

// collector makes the lines of a zone and delivers them.
type collector struct {
	n      *node
	queues map[string]*queue
}

func newCollector(n *node) *collector {
	c := &collector{n: n, queues: map[string]*queue{}}
	for _, p := range n.peers {
		c.queues[p.name] = &queue{news: make(chan struct{}, 1)}
	}
	return c
}

func (c *collector) run(ctx context.Context) {
	for _, p := range c.n.peers {
		go c.deliver(ctx, p)
	}
	tick := time.NewTicker(emitEvery)
	defer tick.Stop()
	for seq := uint64(1); ; seq++ {
		l := line{Origin: c.n.name, Seq: seq, Text: fmt.Sprintf("zone %s does its work, turn %d", c.n.name, seq)}
		for _, p := range targets(c.n.sharded(), c.n.peers, seq) {
			c.queues[p.name].put(l)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// deliver sends what waits for one store, in order, until ctx ends.
func (c *collector) deliver(ctx context.Context, p peer) {
	q := c.queues[p.name]
	for ctx.Err() == nil {
		batch := q.head(batchLines)
		pause := time.Duration(0)
		if len(batch) > 0 {
			if err := c.send(ctx, p, batch); err == nil {
				q.drop(len(batch))
				continue
			}
			pause = retryAfter
		}
		q.wait(ctx, pause)
	}
}

func (c *collector) send(ctx context.Context, p peer, batch []line) error {
	if p.name == c.n.name {
		return c.n.store.add(batch)
	}
	ctx, cancel := context.WithTimeout(ctx, deliverWithin)
	defer cancel()
	body, err := json.Marshal(batch)
	if err != nil {
		return fmt.Errorf("encode lines: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+pathLines, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("deliver to %s: %w", p.name, err)
	}
	resp, err := c.n.client.Do(req)
	if err != nil {
		return fmt.Errorf("deliver to %s: %w", p.name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("deliver to %s: %s", p.name, resp.Status)
	}
	return nil
}

// queue is what waits for one store. What comes beyond maxWaiting is dropped, and
// shows as a hole: fewer lines than the number of the last.
type queue struct {
	mu    sync.Mutex
	lines []line
	// news has room for the word that a line has come.
	news chan struct{}
}

func (q *queue) put(l line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) >= maxWaiting {
		return
	}
	q.lines = append(q.lines, l)
	select {
	case q.news <- struct{}{}:
	default:
	}
}

func (q *queue) head(most int) []line {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]line(nil), q.lines[:min(most, len(q.lines))]...)
}

func (q *queue) drop(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines = append(q.lines[:0], q.lines[n:]...)
}

// wait returns after the pause, or without one when a line has come, or when
// ctx ends.
func (q *queue) wait(ctx context.Context, pause time.Duration) {
	if pause == 0 {
		select {
		case <-q.news:
		case <-ctx.Done():
		}
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

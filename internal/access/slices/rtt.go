package slices

import (
	"context"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

const (
	// measureEvery is how often distances are measured. They rank who adopts,
	// and change when somebody moves a site.
	measureEvery = time.Minute
	// measureSoon is the first time, when the watches have shown somebody.
	measureSoon = 3 * time.Second
	// measureTimeout is longer than any distance on earth, twice, with a lost SYN.
	measureTimeout = 2 * time.Second
	// remembered are the last times of which the least counts: the others waited
	// in queues.
	remembered = 5
)

// nearness is how long a connection to each node's apiserver takes. It says how
// near a node is, never whether it is well.
type nearness struct {
	mu   sync.Mutex
	last map[string][]time.Duration // by node, newest last
}

func newNearness() *nearness { return &nearness{last: map[string][]time.Duration{}} }

func (n *nearness) note(node string, took time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := append(n.last[node], took)
	n.last[node] = all[max(0, len(all)-remembered):]
}

// keep forgets nodes that are not there any more.
func (n *nearness) keep(nodes map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for node := range n.last {
		if !nodes[node] {
			delete(n.last, node)
		}
	}
}

// distances are the least times in milliseconds, rounded up.
func (n *nearness) distances() []plan.Distance {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []plan.Distance
	for node, times := range n.last {
		least := times[0]
		for _, t := range times {
			least = min(least, t)
		}
		all = append(all, plan.Distance{Node: node, Millis: int((least + time.Millisecond - 1) / time.Millisecond)})
	}
	return all
}

// measure connects to the others' apiservers now and then.
func (a *agent) measure(ctx context.Context) {
	wait := measureSoon
	for pause(ctx, wait) {
		wait = measureEvery
		nodes := map[string]bool{}
		s := a.world.look()
		for i := range s.view.Slices {
			o := &s.view.Slices[i]
			if o.Owner != plan.Ours || o.Node == a.settings.Node || nodes[o.Node] {
				continue
			}
			nodes[o.Node] = true
			if took, ok := connectTime(ctx, net.JoinHostPort(o.Address, strconv.Itoa(int(o.Port))), measureTimeout); ok {
				a.near.note(o.Node, took)
			}
		}
		a.near.keep(nodes)
		if len(nodes) == 0 {
			wait = measureSoon
		}
	}
}

// connectTime is how long the handshake of TCP takes: one round trip.
func connectTime(ctx context.Context, address string, timeout time.Duration) (time.Duration, bool) {
	d := net.Dialer{Timeout: timeout}
	begun := time.Now()
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, false
	}
	took := time.Since(begun)
	_ = conn.Close()
	return took, true
}

package choose

import (
	"hash/fnv"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/health"
)

// Answer says what a Pick means.
type Answer int

const (
	// Use the backend whose index came with it.
	Use Answer = iota
	// Wait: every usable backend is at its limit.
	Wait
	// None: nobody is left to try; the client is refused now.
	None
)

// Query is one question for a backend.
type Query struct {
	Client netip.Addr
	// Tried holds the indices this connection was sent to already, Pending
	// those of them that have not failed: still connecting, or silent so far.
	Tried, Pending []int
	// Active returns how many connections a backend has, those being opened
	// included.
	Active func(i int) int
	Now    time.Duration
	// Turn counts connections of the frontend; for round robin.
	Turn uint64
	// Random returns a number in [0, 1); for least connections.
	Random func() float64
}

// Pick names the backend for the next attempt of a connection.
//
// None while attempts are pending means: nobody better than those, wait for
// them. A backend that is not ready accepts at once when it is near; it must
// not overtake a ready one whose handshake has a lost packet.
func (t *Table) Pick(q Query) (int, Answer) {
	full, pending := false, false
	for k, tier := range t.tiers {
		i, ok, someFull := t.within(tier, q)
		if ok {
			return i, Use
		}
		full = full || someFull
		pending = pending || slices.ContainsFunc(tier.members, func(i int) bool { return slices.Contains(q.Pending, i) })
		// A worse grade is no place to overflow to, nor to overtake from.
		switch last := k+1 == len(t.tiers) || t.tiers[k+1].grade != tier.grade; {
		case last && full:
			return 0, Wait
		case last && pending:
			return 0, None
		}
	}
	// Nobody usable, or all of them have failed: then their grades have just
	// been proved wrong for this connection, and the rest is worth a try.
	for _, equals := range t.panics {
		if i, ok := anyOf(equals, q); ok {
			return i, Use
		}
	}
	return 0, None
}

// anyOf picks by chance: at the start nothing is known of anybody, and the
// first of the list must not get all clients.
func anyOf(equals []int, q Query) (int, bool) {
	untried := make([]int, 0, 8)
	for _, i := range equals {
		if !slices.Contains(q.Tried, i) {
			untried = append(untried, i)
		}
	}
	if len(untried) == 0 {
		return 0, false
	}
	return untried[int(q.Random()*float64(len(untried)))], true
}

// within picks from one tier.
func (t *Table) within(tr tier, q Query) (pick int, ok, full bool) {
	open := func(i int) bool {
		if slices.Contains(q.Tried, i) {
			return false
		}
		if most := t.backends[i].MaxConns; most > 0 && q.Active(i) >= most {
			full = true
			return false
		}
		return true
	}
	switch t.cfg.Policy {
	case RoundRobin:
		pick, ok = tr.next(q.Turn, open)
	case Source:
		pick, ok = t.highest(tr, q.Client, open)
	default:
		pick, ok = t.lessOfTwo(tr, q, open)
	}
	return pick, ok, full
}

// next is the first open backend from the turn on.
func (tr tier) next(turn uint64, open func(int) bool) (int, bool) {
	n := uint64(len(tr.turns))
	for k := range n {
		if i := tr.turns[(turn+k)%n]; open(i) {
			return i, true
		}
	}
	return 0, false
}

// lessOfTwo draws two different backends, each with the chance of its share,
// and takes the one with fewer connections for its share.
func (t *Table) lessOfTwo(tr tier, q Query, open func(int) bool) (int, bool) {
	first, ok := t.draw(tr, q, open, -1)
	if !ok {
		return 0, false
	}
	second, ok := t.draw(tr, q, open, first)
	if ok && t.load(second, q) < t.load(first, q) {
		return second, true
	}
	return first, true
}

func (t *Table) draw(tr tier, q Query, open func(int) bool, except int) (int, bool) {
	total := 0.0
	for _, i := range tr.members {
		if i != except && open(i) {
			total += t.share(i, q.Now)
		}
	}
	left, last := q.Random()*total, -1
	for _, i := range tr.members {
		if i == except || !open(i) {
			continue
		}
		last = i
		if left -= t.share(i, q.Now); left < 0 {
			break
		}
	}
	return last, last >= 0
}

// load is what a backend carries for its share. Of two that carry nothing the
// first drawn wins, so that in an idle pool, too, chance decides by shares, and
// not the fraction of a millisecond by which one is nearer.
func (t *Table) load(i int, q Query) float64 {
	return float64(q.Active(i)) / t.share(i, q.Now)
}

// nearby is the distance below which differences do not matter: handshakes on
// one site take 0.1 to 1 ms, between sites 5 to 50.
const nearby = 2 * time.Millisecond

// share is the weight of a backend with its distance and slow start.
func (t *Table) share(i int, now time.Duration) float64 {
	b := t.backends[i]
	near := float64(nearby) / float64(nearby+b.RTT)
	return float64(weight(b)) * near * t.grown(b, now)
}

// grown is how much of its weight a returning backend has by now.
func (t *Table) grown(b Backend, now time.Duration) float64 {
	const least = 0.1
	age := now - b.ReadySince
	if b.ReadySince < 0 || t.cfg.SlowStart <= 0 || age >= t.cfg.SlowStart {
		return 1
	}
	return least + (1-least)*max(0, float64(age)/float64(t.cfg.SlowStart))
}

// highest picks by the highest of a hash per backend, so that a change of the
// list moves only the clients of the backends that changed.
func (t *Table) highest(tr tier, client netip.Addr, open func(int) bool) (int, bool) {
	best, most := -1, 0.0
	for _, i := range tr.members {
		if !open(i) {
			continue
		}
		if s := score(client, t.backends[i]); best < 0 || s > most {
			best, most = i, s
		}
	}
	return best, best >= 0
}

// BecameReady reports whether the change from one grade to the other is a
// return, from which slow start counts. A first verdict is none: at start
// everybody is new.
func BecameReady(from, to health.Grade) bool {
	return to.Usable() && !from.Usable() && from != health.Unknown
}

// score is the weighted rendezvous score of a client and a backend: the same
// in every process and after every restart.
func score(client netip.Addr, b Backend) float64 {
	h := fnv.New64a()
	bytes := client.As16()
	_, _ = h.Write(bytes[:])
	_, _ = h.Write([]byte(b.ID))
	// FNV leaves the last byte's influence in the low bits; one round of
	// multiply and shift spreads it (finalizer of MurmurHash3).
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	u := (float64(x>>11) + 0.5) / (1 << 53)
	return float64(weight(b)) / -math.Log(u)
}

// Surplus returns by how many connections each backend is above its fair part,
// which the backends of the best tier alone have. A tenth above counts as
// even. Held backends and those not usable are nobody's surplus: their
// connections are drained or reset for other reasons. Suspicion does not count
// here, for it passes; and by source nothing is moved, since a client would
// come back to where it was.
func (t *Table) Surplus(now time.Duration, active func(i int) int) []int {
	over := make([]int, len(t.backends))
	if t.suspects {
		calm := slices.Clone(t.backends)
		for i := range calm {
			calm[i].Suspect = false
		}
		return New(t.cfg, calm).Surplus(now, active)
	}
	if len(t.tiers) == 0 || t.cfg.Policy == Source {
		return over
	}
	connections, shares := 0, 0.0
	for _, tier := range t.tiers {
		for _, i := range tier.members {
			connections += active(i)
		}
	}
	for _, i := range t.tiers[0].members {
		shares += t.share(i, now)
	}
	fair := make([]float64, len(t.backends))
	for _, i := range t.tiers[0].members {
		fair[i] = float64(connections) * t.share(i, now) / shares
	}
	for _, tier := range t.tiers {
		for _, i := range tier.members {
			over[i] = max(0, active(i)-int(math.Ceil(fair[i]*1.1)))
		}
	}
	return over
}

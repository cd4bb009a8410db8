package leader

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/internal/quorum/etcd"
)

// publisher writes the own row into etcd: on change, and every publishEvery.
type publisher struct {
	store  *store
	source func() (Row, []etcd.Peer)
	clock  func() time.Duration
	every  time.Duration
	cond   *conditions
	stats  *metrics

	last   string // fingerprint of what was published
	lastAt time.Duration
}

// due is how long a published row stands. A member that has just lost its
// leader repeats itself: the decision wants to hear for how long it has been
// without, in the words of the row and not by the reader's arithmetic. After
// leaderlessEager nothing hangs on it any more.
func (p *publisher) due(row Row) time.Duration {
	if row.Reachable && row.Leader == 0 && row.LeaderlessFor < leaderlessEager {
		return statusEvery
	}
	return p.every
}

const leaderlessEager = 10 * time.Second

// round writes the row if it changed or is due.
func (p *publisher) round(ctx context.Context) {
	row, peers := p.source()
	now := p.clock()
	print := fingerprint(row)
	if row.Member == 0 || len(peers) == 0 || (print == p.last && now-p.lastAt < p.due(row)) {
		return
	}
	var failed error
	for _, url := range routes(row, peers) {
		err := p.store.put(ctx, url, row)
		if ctx.Err() != nil {
			return
		}
		p.stats.published(err)
		if err == nil {
			p.last, p.lastAt = print, now
			p.cond.set(condPublish, nil, "")
			return
		}
		failed = err
		// Where the quota is exhausted no member takes writes; the mesh
		// carries the row instead.
		if isNoSpace(err) {
			break
		}
	}
	if failed == nil {
		failed = errors.New("no member with a client URL is known")
	}
	p.cond.set(condPublish, failed, "the own row reaches no member; agents that can be reached directly still read it")
}

// fingerprint is the part of a row whose change others must hear of at once.
func fingerprint(r Row) string {
	b := []byte{}
	add := func(s string) { b = append(append(b, s...), 0) }
	for _, flag := range []bool{r.Reachable, r.Learner} {
		if flag {
			add("1")
		} else {
			add("0")
		}
	}
	add(r.Leader.String())
	add(MemberID(r.Term).String())
	for _, a := range r.Alarms {
		add(a)
	}
	for _, id := range slices.Sorted(maps.Keys(r.Links)) {
		add(id.String())
		add(r.Links[id].State.String())
	}
	add(MemberID(r.Penalty.Seq).String())
	return string(b)
}

// routes orders the client URLs to publish through: the own member while it
// has a leader it can reach, else members whose link is up, then the rest. A
// member that lost its leader cannot take the write.
func routes(row Row, peers []etcd.Peer) []string {
	rank := func(p etcd.Peer) int {
		id := MemberID(p.ID)
		if id == row.Member {
			lead := row.Links[row.Leader]
			if row.Reachable && row.Leader != 0 && (row.Leader == row.Member || lead.State != Down) {
				return 0
			}
			return 4
		}
		switch row.Links[id].State {
		case Up:
			if id == row.Leader {
				return 1
			}
			return 2
		case Unknown:
			return 3
		default:
			return 5
		}
	}
	sorted := slices.Clone(peers)
	slices.SortStableFunc(sorted, func(a, b etcd.Peer) int { return rank(a) - rank(b) })
	var urls []string
	for _, p := range sorted {
		urls = append(urls, p.ClientURLs...)
	}
	return urls
}

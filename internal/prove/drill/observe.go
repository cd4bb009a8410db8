package drill

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
	"github.com/holdfast-ha/holdfast/internal/prove/lab"
)

// pollEvery spaces the observer's questions; leader changes are dated to it.
const pollEvery = 100 * time.Millisecond

// watchers ask every member for its leader, from within its own node, so that
// no cut hides it: the ground truth beside the clients' view.
type watchers struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu    sync.Mutex
	views map[string]*view // by cluster
	// spells tell who answers for the held address, records what the arbiter has.
	spells  *spells
	records records
}

func (w *watchers) stop() {
	w.cancel()
	w.done.Wait()
}

// leaderSite is the site of the leader of cluster, "" when none is known.
func (w *watchers) leaderSite(cluster string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v := w.views[cluster]; v != nil {
		return v.siteOf[v.leader]
	}
	return ""
}

// watch starts one observer per member.
func (e *engine) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e.watchers = &watchers{ctx: ctx, cancel: cancel, views: map[string]*view{}, spells: newSpells()}
	e.run.Members = map[string]string{}
	for _, cluster := range e.c.ClusterNames() {
		v := newView(cluster)
		e.watchers.views[cluster] = v
		ids := map[string]uint64{}
		for _, site := range e.c.MemberSites(cluster) {
			m := e.members[scenario.Process{Cluster: cluster, Site: site}]
			s, err := m.Status(ctx)
			if err != nil {
				return fmt.Errorf("observe %s: %w", cluster, err)
			}
			name := m.Node().Name()
			ids[site], v.nameOf[s.ID], v.siteOf[s.ID] = s.ID, name, site
			e.run.Members[name] = site
			e.versions[s.Version] = true
		}
		for site, id := range ids {
			m := e.members[scenario.Process{Cluster: cluster, Site: site}]
			e.watchers.done.Go(func() { e.follow(ctx, v, id, m) })
		}
	}
	e.watchAPIServers(ctx)
	e.watchKubernetes(ctx)
	return e.watchPair(ctx)
}

// follow polls one member until ctx ends.
func (e *engine) follow(ctx context.Context, v *view, id uint64, m *lab.Member) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		s, err := m.Status(ctx)
		if ctx.Err() != nil {
			return
		}
		now := e.clock.now()
		e.watchers.mu.Lock()
		events := v.see(id, sight{err != nil, s.Leader, s.Term})
		e.watchers.mu.Unlock()
		for _, ev := range events {
			ev.At = now
			e.w.Event(ev)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sight is one answer of a member.
type sight struct {
	silent bool
	leader uint64
	term   uint64
}

// view is what the observer knows of one cluster. It is pure: sights in,
// events out.
type view struct {
	cluster string
	nameOf  map[uint64]string
	siteOf  map[uint64]string
	last    map[uint64]sight
	// leader is the one of the highest term that any member has named.
	leader, term uint64
}

func newView(cluster string) *view {
	return &view{cluster: cluster, nameOf: map[uint64]string{}, siteOf: map[uint64]string{}, last: map[uint64]sight{}}
}

// see takes one sight of a member and returns what is new.
func (v *view) see(id uint64, now sight) []record.Event {
	was, known := v.last[id]
	v.last[id] = now
	name := v.nameOf[id]
	var out []record.Event
	add := func(kind, message string, keys map[string]string) {
		out = append(out, record.Event{Source: "observer", Kind: kind, Cluster: v.cluster, Message: message, Keys: keys})
	}
	if now.silent {
		v.last[id] = sight{silent: true, leader: was.leader, term: was.term}
		if known && !was.silent {
			add(record.KindSilent, name+" does not answer", map[string]string{"member": name})
		}
		return out
	}
	if was.silent {
		add(record.KindAnswers, name+" answers again", map[string]string{"member": name})
	}
	if now.leader == 0 && (!known || was.leader != 0) {
		add(record.KindNoLeader, name+" has no leader", map[string]string{"member": name, "from": v.nameOf[was.leader]})
	}
	if now.leader != 0 && known && was.leader == 0 {
		add(record.KindLeaderBack, name+" has the leader "+v.nameOf[now.leader], map[string]string{"member": name, "to": v.nameOf[now.leader]})
	}
	if now.leader != 0 && now.term > v.term {
		if v.leader != 0 && v.leader != now.leader {
			from, to := v.nameOf[v.leader], v.nameOf[now.leader]
			add(record.KindLeader, fmt.Sprintf("leader is %s, was %s", to, from), map[string]string{"from": from, "to": to, "member": name})
		}
		v.leader, v.term = now.leader, now.term
	}
	return out
}

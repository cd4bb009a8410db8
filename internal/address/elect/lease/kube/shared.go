package kube

import (
	"context"
	"maps"
	"sync"

	coordination "k8s.io/api/coordination/v1"

	"github.com/holdfast-ha/holdfast/internal/address/elect/lease"
	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// Shared follows the Leases that have a label by one watch, for any number of
// Stores: an agent that contends for hundreds of addresses costs the API what one
// with a single address does. The fields are set before use.
type Shared struct {
	// Cluster is as that of a Store.
	Cluster   *kubeapi.Cluster
	Namespace string
	// Label and Value are on every Lease that is made.
	Label, Value string
	// Report is told the outcome of each request for the watch.
	Report func(error)

	mu     sync.Mutex
	listed bool
	seen   map[string]lease.Seen
	told   map[string]map[*teller]bool
}

type teller struct{ tell func(lease.Seen) }

// Store is that of the Lease of a name. Its Watch needs Run.
func (s *Shared) Store(name string) lease.Store {
	return &follower{
		Store: Store{Cluster: s.Cluster, Namespace: s.Namespace, Name: name, Labels: map[string]string{s.Label: s.Value}}, shared: s,
	}
}

// follower is a Store that is told by the common watch.
type follower struct {
	Store
	shared *Shared
}

// Watch implements lease.Store.
func (f *follower) Watch(ctx context.Context, tell func(lease.Seen)) {
	t := &teller{tell}
	f.shared.join(f.Name, t)
	<-ctx.Done()
	f.shared.leave(f.Name, t)
}

func (s *Shared) join(name string, t *teller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told == nil {
		s.told = map[string]map[*teller]bool{}
	}
	if s.told[name] == nil {
		s.told[name] = map[*teller]bool{}
	}
	s.told[name][t] = true
	if s.listed {
		t.tell(s.seen[name])
	}
}

func (s *Shared) leave(name string, t *teller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.told[name], t); len(s.told[name]) == 0 {
		delete(s.told, name)
	}
}

// Seen returns the newest record of each Lease; false before all have been read.
func (s *Shared) Seen() (map[string]lease.Seen, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.seen), s.listed
}

// Run follows the Leases until ctx ends.
func (s *Shared) Run(ctx context.Context) {
	store := Store{Cluster: s.Cluster, Namespace: s.Namespace}
	f := &kubeapi.Follower[coordination.Lease]{
		Connect: s.Cluster.Connect, Path: store.collection(), Selector: s.Label + "=" + s.Value, Report: s.Report,
		Replace: s.replace,
		Apply: func(e kubeapi.Event[coordination.Lease]) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.apply(&e.Object, e.Deleted)
		},
	}
	_ = f.Run(ctx) // whose error is that of ctx
}

func (s *Shared) replace(all []coordination.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.listed = map[string]lease.Seen{}, true
	for i := range all {
		s.apply(&all[i], false)
	}
	for name := range s.told {
		if _, there := s.seen[name]; !there {
			s.tell(name, lease.Seen{})
		}
	}
}

// apply takes in one Lease. The lock is held.
func (s *Shared) apply(object *coordination.Lease, deleted bool) {
	if deleted {
		delete(s.seen, object.Name)
		s.tell(object.Name, lease.Seen{})
		return
	}
	if seen, err := seenIn(object); err == nil {
		s.seen[object.Name] = seen
		s.tell(object.Name, seen)
	}
}

func (s *Shared) tell(name string, seen lease.Seen) {
	for t := range s.told[name] {
		t.tell(seen)
	}
}

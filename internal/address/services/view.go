package services

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	discovery "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// view is the world as the followers tell it, with our own writes noted at once.
type view struct {
	changed func()

	mu       sync.Mutex
	services map[Key]Service
	// newer are Services as a write or a read of a quorum showed them, until the
	// follower tells of a version that is not older.
	newer  map[Key]Service
	slices map[Key]endpoints
	// excluded: this machine's Node has LabelExclude.
	excluded bool
	listed   map[string]bool // by the name of a follower
}

// endpoints are those of one slice.
type endpoints struct {
	service Key
	nodes   []string
}

// Names of followers.
const (
	followServices = "services"
	followSlices   = "endpointslices"
	followNode     = "nodes"
)

func newView(changed func()) *view {
	return &view{
		changed: changed, services: map[Key]Service{}, newer: map[Key]Service{}, slices: map[Key]endpoints{}, listed: map[string]bool{},
	}
}

// update does something and tells of it, unless nothing has changed that matters:
// a cluster's EndpointSlices change all the time.
func (v *view) update(do func() (matters bool)) {
	v.mu.Lock()
	matters := do()
	v.mu.Unlock()
	if matters {
		v.changed()
	}
}

func (v *view) replaceServices(all []Service) {
	v.update(func() bool {
		v.services, v.listed[followServices] = map[Key]Service{}, true
		for _, s := range all {
			v.setService(s, false)
		}
		return true
	})
}

func (v *view) applyService(e kubeapi.Event[Service]) {
	v.update(func() bool { return v.setService(e.Object, e.Deleted) })
}

// setService says whether the Service matters, or did.
func (v *view) setService(s Service, deleted bool) bool {
	k := s.Metadata.Key()
	if n, ok := v.newer[k]; ok && !older64(s, n) {
		delete(v.newer, k)
	}
	_, did := v.services[k]
	if deleted || !s.matters() {
		delete(v.services, k)
		return did
	}
	v.services[k] = s
	return true
}

// older64 compares versions, which are revisions of etcd; see package kube of the
// lease. One that is no number is not older.
func older64(a, b Service) bool {
	x, err1 := strconv.ParseUint(a.Metadata.ResourceVersion, 10, 64)
	y, err2 := strconv.ParseUint(b.Metadata.ResourceVersion, 10, 64)
	return err1 == nil && err2 == nil && x < y
}

// learn takes in Services as a write or a read of a quorum showed them.
func (v *view) learn(all ...Service) {
	v.update(func() bool {
		for _, s := range all {
			k := s.Metadata.Key()
			if old, ok := v.services[k]; ok && !older64(old, s) || !s.matters() {
				continue
			}
			if n, ok := v.newer[k]; !ok || older64(n, s) {
				v.newer[k] = s
			}
		}
		return true
	})
}

func (v *view) replaceSlices(all []Slice) {
	v.update(func() bool {
		v.slices, v.listed[followSlices] = map[Key]endpoints{}, true
		for _, s := range all {
			v.setSlice(s, false)
		}
		return true
	})
}

func (v *view) applySlice(e kubeapi.Event[Slice]) {
	v.update(func() bool { return v.setSlice(e.Object, e.Deleted) })
}

// setSlice says whether other machines have a ready endpoint now.
func (v *view) setSlice(s Slice, deleted bool) bool {
	k := s.Metadata.Key()
	old := v.slices[k]
	if deleted || s.Metadata.Labels[discovery.LabelServiceName] == "" {
		delete(v.slices, k)
		return len(old.nodes) > 0
	}
	is := endpoints{s.service(), s.nodes()}
	v.slices[k] = is
	return old.service != is.service || !sameSet(old.nodes, is.nodes)
}

// replaceNode is told of this machine's Node, which may not be there.
func (v *view) replaceNode(all []node) {
	v.update(func() bool {
		v.listed[followNode] = true
		return v.exclude(len(all) > 0 && all[0].excluded())
	})
}

func (v *view) applyNode(e kubeapi.Event[node]) {
	v.update(func() bool { return v.exclude(!e.Deleted && e.Object.excluded()) })
}

func (v *view) exclude(on bool) bool {
	was := v.excluded
	v.excluded = on
	return was != on
}

// complete says that everything has been read once.
func (v *view) complete() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.listed[followServices] && v.listed[followSlices] && v.listed[followNode]
}

// snapshot returns the Services, in the order of their names, and the machines
// with a ready endpoint of each.
func (v *view) snapshot() ([]Service, map[Key][]string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	found := maps.Clone(v.services)
	maps.Copy(found, v.newer)
	all := slices.SortedFunc(maps.Values(found), func(a, b Service) int { return byKey(a.Metadata.Key(), b.Metadata.Key()) })
	ready := map[Key][]string{}
	for _, e := range v.slices {
		for _, n := range e.nodes {
			if of := ready[e.service]; !slices.Contains(of, n) {
				ready[e.service] = append(of, n)
			}
		}
	}
	return all, ready
}

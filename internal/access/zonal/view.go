package zonal

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	discovery "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// view is the world as the followers tell it, with our own writes noted at once.
type view struct {
	mu       sync.Mutex
	services map[Key]Service
	slices   map[Key]Slice
	taken    map[Key]bool
	nodes    map[string]place
	ready    map[Key]tally
	listed   map[string]bool // by the name of a follower
	// buried are versions that objects were deleted at, until the next list.
	buried  map[target]string
	changed func()
}

// place is where a node is.
type place struct {
	zone string
	// control says that it is a control-plane node: gateways seldom run there.
	control bool
}

// tally counts the ready endpoints in one slice of a Service, by zone.
type tally struct {
	service Key
	zones   map[string]int
}

func newView(changed func()) *view {
	return &view{
		services: map[Key]Service{}, slices: map[Key]Slice{}, taken: map[Key]bool{},
		nodes: map[string]place{}, ready: map[Key]tally{}, listed: map[string]bool{}, buried: map[target]string{}, changed: changed,
	}
}

func (v *view) update(do func()) {
	v.mu.Lock()
	do()
	v.mu.Unlock()
	v.changed()
}

func (v *view) setService(s Service, deleted bool) {
	if deleted || !s.matters() {
		delete(v.services, s.Metadata.Key())
		return
	}
	v.services[s.Metadata.Key()] = s
}

func (v *view) setSlice(s Slice, deleted bool) {
	if deleted || s.Metadata.Labels[discovery.LabelManagedBy] != owner {
		delete(v.slices, s.Metadata.Key())
		return
	}
	v.slices[s.Metadata.Key()] = s
}

// within says that a follower of namespace, "" for all, tells of the key.
func within(namespace string, k Key) bool { return namespace == "" || namespace == k.Namespace }

func (v *view) replaceServices(namespace string, all []Service) {
	v.update(func() {
		maps.DeleteFunc(v.services, func(k Key, _ Service) bool { return within(namespace, k) })
		clear(v.buried)
		for _, s := range all {
			v.setService(s, false)
		}
		v.listed["services "+namespace] = true
	})
}

func (v *view) replaceSlices(namespace string, all []Slice) {
	v.update(func() {
		maps.DeleteFunc(v.slices, func(k Key, _ Slice) bool { return within(namespace, k) })
		for _, s := range all {
			v.setSlice(s, false)
		}
		v.listed["endpointslices "+namespace] = true
	})
}

func (v *view) applyService(e kubeapi.Event[Service]) {
	v.mu.Lock()
	_, had := v.services[e.Object.Metadata.Key()]
	v.setService(e.Object, e.Deleted)
	v.bury(Services, &e.Object.Metadata, e.Deleted)
	_, has := v.services[e.Object.Metadata.Key()]
	v.mu.Unlock()
	if had || has {
		v.changed()
	}
}

func (v *view) applySlice(e kubeapi.Event[Slice]) {
	v.update(func() {
		v.setSlice(e.Object, e.Deleted)
		v.bury(Slices, &e.Object.Metadata, e.Deleted)
	})
}

// mostBuried bounds how many deletions are remembered.
const mostBuried = 1000

func (v *view) bury(kind Kind, m *Meta, deleted bool) {
	if !deleted {
		return
	}
	if len(v.buried) >= mostBuried {
		clear(v.buried)
	}
	v.buried[target{kind: kind, name: m.Key()}] = m.ResourceVersion
}

// versionOf is that of an object as it is known; "" when there is none. v.mu is held.
func (v *view) versionOf(kind Kind, name Key) string {
	if kind == Slices {
		return v.slices[name].Metadata.ResourceVersion
	}
	return v.services[name].Metadata.ResourceVersion
}

func (v *view) version(kind Kind, name Key) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.versionOf(kind, name)
}

// passed says that the watch has told more than an answer of the given version:
// answers and events come by different ways, and an event is not repeated.
func (v *view) passed(kind Kind, m *Meta) bool {
	return newer(v.versionOf(kind, m.Key()), m.ResourceVersion) || newer(v.buried[target{kind: kind, name: m.Key()}], m.ResourceVersion)
}

// newer compares resourceVersions, which are numbers that grow (KEP-5504); of
// anything else it says no.
func newer(a, b string) bool {
	x, err1 := strconv.ParseUint(a, 10, 64)
	y, err2 := strconv.ParseUint(b, 10, 64)
	return err1 == nil && err2 == nil && x > y
}

// gone notes that the object is not there any more in the version that was known.
func (v *view) gone(kind Kind, name Key, version string) {
	if v.version(kind, name) == version {
		v.drop(kind, name)
	}
}

// note puts in what the API answered to a write of ours, unless the watch has told
// of a later one.
func (v *view) note(kind Kind, data []byte) error {
	var service Service
	var slice Slice
	into := any(&service)
	if kind == Slices {
		into = &slice
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read answer about %s: not the expected JSON", kind)
	}
	v.update(func() {
		switch {
		case kind == Slices && !v.passed(kind, &slice.Metadata):
			v.setSlice(slice, false)
		case kind == Services && !v.passed(kind, &service.Metadata):
			v.setService(service, false)
		}
	})
	return nil
}

func (v *view) drop(kind Kind, name Key) {
	v.update(func() {
		if kind == Slices {
			delete(v.slices, name)
		} else {
			delete(v.services, name)
		}
	})
}

func (v *view) setTaken(name Key, taken bool) {
	v.mu.Lock()
	was := v.taken[name]
	if taken {
		v.taken[name] = true
	} else {
		delete(v.taken, name)
	}
	v.mu.Unlock()
	if was != taken {
		v.changed()
	}
}

// complete says that services and slices of all namespaces were listed.
func (v *view) complete(namespaces []string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, n := range namespaces {
		if !v.listed["services "+n] || !v.listed["endpointslices "+n] {
			return false
		}
	}
	return true
}

func (v *view) snapshot() Snapshot {
	v.mu.Lock()
	defer v.mu.Unlock()
	return Snapshot{Services: maps.Clone(v.services), Slices: maps.Clone(v.slices), Taken: maps.Clone(v.taken)}
}

// takenNames are those to look at again.
func (v *view) takenNames() []Key {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.SortedFunc(maps.Keys(v.taken), byKey)
}

// asking are the Services that ask for a mirror.
func (v *view) asking() []Key {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []Key
	for k, s := range v.services {
		if s.asked() {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, byKey)
	return all
}

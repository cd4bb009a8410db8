package slices

import (
	"strconv"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"

	"github.com/holdfast-ha/holdfast/internal/access/slices/plan"
)

// lateAfter bounds how long an answer to an own write is preferred to a watch
// that has not come so far; a watch that takes longer has ended, and lists.
const lateAfter = 30 * time.Second

// answer is an object as a write or a reading of our own showed it, before the
// watch did. A nil object was deleted.
type answer struct {
	object  *discovery.EndpointSlice
	version string
	at      time.Time
}

// stray says that the object has not the label by which slices are listed, so no
// watch shows it: it is believed until it is read again.
func (a answer) stray() bool {
	return a.object != nil && a.object.Labels[discovery.LabelServiceName] != plan.ServiceName && a.object.Name != plan.ServiceName
}

// settle drops an answer that the watch has caught up with. w.mu is held.
func (w *world) settle(name, version string) {
	if a, ok := w.answers[name]; ok && !newer(a.version, version) {
		delete(w.answers, name)
	}
}

// newer says that version a of one object was written after b. They are
// revisions of etcd; what is no number is not compared.
func newer(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x > y
}

// learn takes in an object from an answer.
func (w *world) learn(s *discovery.EndpointSlice) {
	w.put(s.Name, answer{trim(s), s.ResourceVersion, w.clock()})
}

// learnAll takes in what was read all at once: where a watch lags behind, the
// next decision is not made on what is known to be over.
func (w *world) learnAll(all *slicesList, joint *discovery.EndpointSlice, service *core.Service) {
	there := map[string]bool{}
	for i := range all.Items {
		if all.Items[i].Name != plan.ServiceName {
			there[all.Items[i].Name] = true
			w.learn(&all.Items[i])
		}
	}
	if joint != nil {
		w.learn(joint)
	}
	if service != nil {
		w.learnService(service)
	}
	for _, name := range w.listed() {
		if !there[name] && all.Metadata.ResourceVersion != "" {
			w.unlearn(name, all.Metadata.ResourceVersion)
		}
	}
}

// listed are the slices that a watch has shown, but for the one named kubernetes
// and those that are known to have lost the label since.
func (w *world) listed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for name := range w.slices {
		if !w.answers[name].stray() {
			all = append(all, name)
		}
	}
	return all
}

// strays are the slices that no watch shows and that were not read, or asked for
// here, for so long.
func (w *world) strays(unread time.Duration) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for name, a := range w.answers {
		if a.stray() && w.clock().Sub(a.at) >= unread {
			a.at = w.clock()
			w.answers[name] = a
			all = append(all, name)
		}
	}
	return all
}

// lose drops what an answer told of an object that is not there any more.
func (w *world) lose(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.answers, name)
}

// learnService takes in the Service from an answer.
func (w *world) learnService(s *core.Service) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.service == nil || newer(s.ResourceVersion, w.service.ResourceVersion) {
		s.ManagedFields = nil
		w.service = s
	}
}

// unlearn notes that an object of that version was deleted.
func (w *world) unlearn(name, version string) {
	w.put(name, answer{nil, version, w.clock()})
}

func (w *world) put(name string, a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.slices[name]
	if name == plan.ServiceName {
		seen = w.joint
	}
	if seen != nil && (newer(seen.ResourceVersion, a.version) || a.object != nil && seen.ResourceVersion == a.version) {
		return
	}
	if old, ok := w.answers[name]; !ok || !newer(old.version, a.version) {
		w.answers[name] = a
	}
}

// overlay puts answers over what a watch or a list has shown. w.mu is held.
func (w *world) overlay(raw map[string]*discovery.EndpointSlice) {
	for name, a := range w.answers {
		switch {
		case w.clock().Sub(a.at) > lateAfter && !a.stray():
			delete(w.answers, name)
		case a.object == nil:
			if old := raw[name]; old != nil && !newer(old.ResourceVersion, a.version) {
				delete(raw, name)
			}
		default:
			if old := raw[name]; old == nil || newer(a.version, old.ResourceVersion) {
				raw[name] = a.object
			}
		}
	}
}

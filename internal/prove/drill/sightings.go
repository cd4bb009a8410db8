package drill

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

// object is what the observer needs of each object of the Kubernetes API.
type object struct {
	Metadata struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
}

func (o object) name() string { return o.Metadata.Name }

// version orders the changes of one collection: apiservers take it from the
// revision of their etcd.
func (o object) version() uint64 {
	v, _ := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64)
	return v
}

type versioned interface {
	name() string
	version() uint64
}

// sightings merge what the apiservers of all sites tell of one collection. The
// newest view counts, so that neither a cut nor an apiserver that lags behind
// hides or repeats a change. It is pure: news in, whole views out.
type sightings[T versioned] struct {
	shown uint64 // version of the newest view so far
	views map[string]*viewOf[T]
}

// viewOf is what one apiserver has told.
type viewOf[T versioned] struct {
	version uint64
	objects map[string]T
}

func (s *sightings[T]) of(server string) *viewOf[T] {
	if s.views == nil {
		s.views = map[string]*viewOf[T]{}
	}
	if s.views[server] == nil {
		s.views[server] = &viewOf[T]{objects: map[string]T{}}
	}
	return s.views[server]
}

// list takes a whole collection from a server; the view is returned, in order of
// name, when it is news.
func (s *sightings[T]) list(server string, items []T) ([]T, bool) {
	v := s.of(server)
	v.objects = map[string]T{}
	for _, o := range items {
		v.objects[o.name()] = o
		v.version = max(v.version, o.version())
	}
	return s.show(v)
}

// change takes one change from a server.
func (s *sightings[T]) change(server string, e kubeapi.Event[T]) ([]T, bool) {
	v := s.of(server)
	if e.Deleted {
		delete(v.objects, e.Object.name())
	} else {
		v.objects[e.Object.name()] = e.Object
	}
	v.version = max(v.version, e.Object.version())
	return s.show(v)
}

func (s *sightings[T]) show(v *viewOf[T]) ([]T, bool) {
	if v.version <= s.shown {
		return nil, false
	}
	s.shown = v.version
	out := slices.Collect(maps.Values(v.objects))
	slices.SortFunc(out, func(a, b T) int {
		return cmp.Or(strings.Compare(a.name(), b.name()), cmp.Compare(a.version(), b.version()))
	})
	return out, true
}

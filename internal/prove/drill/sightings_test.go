package drill

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/base/kubeapi"
)

func obj(name string, version int) object {
	var o object
	o.Metadata.Name, o.Metadata.ResourceVersion = name, fmt.Sprint(version)
	return o
}

func TestNewestViewCounts(t *testing.T) {
	var s sightings[object]
	changed := func(o object) kubeapi.Event[object] { return kubeapi.Event[object]{Object: o} }
	for i, step := range []struct {
		server string
		list   []object
		event  kubeapi.Event[object]
		want   string // names of the view that is news, "-" when there is none
	}{
		{server: "a", list: []object{obj("y", 5), obj("x", 4)}, want: "x4 y5"},
		{server: "b", list: []object{obj("x", 4)}, want: "-"}, // lags behind
		{server: "b", event: changed(obj("y", 5)), want: "-"},
		{server: "b", event: changed(obj("x", 7)), want: "x7 y5"},
		{server: "a", event: changed(obj("x", 7)), want: "-"}, // repeats it
		{server: "a", event: kubeapi.Event[object]{Object: obj("y", 9), Deleted: true}, want: "x7"},
		{server: "b", event: kubeapi.Event[object]{Object: obj("y", 9), Deleted: true}, want: "-"},
		{server: "a", list: nil, want: "-"}, // an empty list says nothing of its age
		{server: "b", event: changed(obj("z", 10)), want: "x7 z10"},
	} {
		var view []object
		var news bool
		if step.event.Object.name() == "" {
			view, news = s.list(step.server, step.list)
		} else {
			view, news = s.change(step.server, step.event)
		}
		got := "-"
		if news {
			var words []string
			for _, o := range view {
				words = append(words, o.name()+o.Metadata.ResourceVersion)
			}
			got = strings.Join(words, " ")
		}
		if got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
}

package drill

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
)

const someSlices = `[
 {"metadata":{"name":"kubernetes-a1"},"endpoints":[{"addresses":["10.77.1.11"],"zone":"a","conditions":{"ready":true},"hints":{"forZones":[{"name":"b"},{"name":"a"}]}}]},
 {"metadata":{"name":"kubernetes-b1"},"endpoints":[{"addresses":["10.77.2.11"],"zone":"b","conditions":{"ready":false},"hints":{"forZones":[{"name":"b"}]}}]},
 {"metadata":{"name":"kubernetes"},"endpoints":[{"addresses":["10.77.3.11"],"conditions":{}},{"conditions":{}}]}
]`

func TestEndpointsAreToldWhenTheyChange(t *testing.T) {
	var all []sliceObject
	if err := json.Unmarshal([]byte(someSlices), &all); err != nil {
		t.Fatal(err)
	}
	now := endpointsOf(all, map[string]string{"10.77.1.11": "a"})
	ev, news := endpointsEvent(nil, now)
	if want := "endpoints: 10.77.1.11 for a+b, 10.77.2.11 not ready, 10.77.3.11 for everybody,  for everybody"; !news || ev.Message != want {
		t.Errorf("%t, %q; want %q", news, ev.Message, want)
	}
	back, err := record.ParseEndpoints(ev.Keys)
	if err != nil || len(back) != 4 || back[2].Site != "a" {
		t.Errorf("keys %v: %+v, %v", ev.Keys, back, err)
	}
	if _, news := endpointsEvent(now, now); news {
		t.Error("the same endpoints are news")
	}
	if ev, news := endpointsEvent(now, nil); !news || ev.Message != "endpoints: none" {
		t.Errorf("no endpoints: %t, %q", news, ev.Message)
	}
	if _, news := endpointsEvent(nil, nil); !news {
		t.Error("that there are none at first is no news")
	}
}

func TestNodesAreToldWhenTheyChange(t *testing.T) {
	was := map[string]bool{}
	for i, step := range []struct{ nodes, want string }{
		{`[{"metadata":{"name":"a1"},"status":{"conditions":[{"type":"Ready","status":"True"}]}},{"metadata":{"name":"b1"}}]`, ""},
		{`[{"metadata":{"name":"a1"},"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}]}}]`, "node a1 is not Ready: NodeStatusUnknown"},
		{`[{"metadata":{"name":"a1"},"status":{"conditions":[{"type":"Ready","status":"False","reason":"KubeletNotReady"}]}}]`, ""},
		{`[{"metadata":{"name":"a1"},"status":{"conditions":[{"type":"DiskPressure","status":"False"},{"type":"Ready","status":"True"}]}}]`, "node a1 is Ready"},
	} {
		var all []nodeObject
		if err := json.Unmarshal([]byte(step.nodes), &all); err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, ev := range nodeEvents(was, all) {
			words = append(words, ev.Message)
		}
		if got := strings.Join(words, "; "); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

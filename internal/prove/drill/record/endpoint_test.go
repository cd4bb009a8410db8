package record

import (
	"reflect"
	"strings"
	"testing"
)

func TestEndpointsThereAndBack(t *testing.T) {
	list := []Endpoint{
		{Slice: "kubernetes", Address: "10.77.1.11", Ready: true},
		{Slice: "kubernetes-a1", Address: "10.77.1.11", Site: "a", Zone: "a", Ready: true, Hints: []string{"a", "b"}},
		{Slice: "kubernetes-b1", Address: "fd77::2", Zone: "b", Hints: []string{"b"}},
	}
	keys := EndpointKeys(list)
	keys["change"] = "is no endpoint"
	back, err := ParseEndpoints(keys)
	if err != nil || !reflect.DeepEqual(back, list) {
		t.Errorf("%+v became %+v, %v", list, back, err)
	}
}

func TestBadEndpoints(t *testing.T) {
	for key, text := range map[string]string{"endpoint:x": "site= zone= ready=true", "endpoint:x/y": "zone=a", "endpoint:x/z": "site= zone=a ready=maybe for="} {
		if list, err := ParseEndpoints(map[string]string{key: text}); err == nil {
			t.Errorf("%s %q became %+v", key, text, list)
		}
	}
}

func FuzzParseEndpoints(f *testing.F) {
	f.Add("endpoint:kubernetes-a1/10.77.1.11", "site=a zone=a ready=true for=a,b")
	f.Add("endpoint:/", "site= zone= ready=1 for=")
	f.Fuzz(func(t *testing.T, key, text string) {
		list, err := ParseEndpoints(map[string]string{key: text})
		if err != nil || len(list) == 0 || strings.Contains(list[0].Site+list[0].Zone+strings.Join(list[0].Hints, ""), "=") {
			return
		}
		back, err := ParseEndpoints(EndpointKeys(list))
		if err != nil || !reflect.DeepEqual(back, list) {
			t.Errorf("%+v became %+v, %v", list, back, err)
		}
	})
}

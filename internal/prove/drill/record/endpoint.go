package record

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Endpoint is one endpoint of default/kubernetes as kube-proxy sees it.
type Endpoint struct {
	// Slice is the EndpointSlice that lists it, Address its first address.
	Slice, Address string
	// Site is where the apiserver at Address stands, "" when none does.
	Site, Zone string
	Ready      bool
	// Hints are the zones that it serves, sorted.
	Hints []string
}

// Endpoints is what kube-proxy saw from At on.
type Endpoints struct {
	At   time.Time
	List []Endpoint
}

// endpointPrefix stands before the place of an endpoint in the keys of an event.
const endpointPrefix = "endpoint:"

// EndpointKeys writes endpoints as the keys of an event, one each:
// "endpoint:SLICE/ADDRESS" → "site=a zone=a ready=true for=a,b".
func EndpointKeys(list []Endpoint) map[string]string {
	keys := map[string]string{}
	for _, e := range list {
		keys[endpointPrefix+e.Slice+"/"+e.Address] = "site=" + e.Site + " zone=" + e.Zone + " ready=" + strconv.FormatBool(e.Ready) + " for=" + strings.Join(e.Hints, ",")
	}
	return keys
}

// ParseEndpoints reads what EndpointKeys wrote, in order of slice and address;
// other keys are passed over.
func ParseEndpoints(keys map[string]string) ([]Endpoint, error) {
	var list []Endpoint
	for key, text := range keys {
		place, ok := strings.CutPrefix(key, endpointPrefix)
		if !ok {
			continue
		}
		e, err := parseEndpoint(place, text)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b Endpoint) int {
		return cmp.Or(strings.Compare(a.Slice, b.Slice), strings.Compare(a.Address, b.Address))
	})
	return list, nil
}

func parseEndpoint(place, text string) (Endpoint, error) {
	var e Endpoint
	var ok bool
	if e.Slice, e.Address, ok = strings.Cut(place, "/"); !ok {
		return e, fmt.Errorf("endpoint %q has no slice", place)
	}
	fields := strings.Split(text, " ")
	if len(fields) != 4 {
		return e, fmt.Errorf("endpoint %q: %q has %d fields, want 4", place, text, len(fields))
	}
	values := map[string]string{}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "=")
		values[name] = value
	}
	ready, err := strconv.ParseBool(values["ready"])
	if err != nil {
		return e, fmt.Errorf("endpoint %q: ready in %q is neither true nor false", place, text)
	}
	e.Site, e.Zone, e.Ready = values["site"], values["zone"], ready
	if hints := values["for"]; hints != "" {
		e.Hints = strings.Split(hints, ",")
	}
	return e, nil
}

package main

import (
	"maps"
	"strings"
	"testing"
	"time"
)

func TestCountWrites(t *testing.T) {
	at := time.Date(2026, 11, 30, 11, 0, 0, 0, time.UTC)
	names := map[string]string{"10.77.1.11": "a1", "10.77.2.11": "b1"}
	line := func(second int, source, resource string) string {
		when := at.Add(time.Duration(second) * time.Second).Format(time.RFC3339Nano)
		return `{"kind":"Event","stage":"ResponseComplete","verb":"patch","sourceIPs":["` + source + `"],` +
			`"objectRef":{"resource":"` + resource + `"},"requestReceivedTimestamp":"` + when + `"}` + "\n"
	}
	log := line(-1, "127.0.0.1", "services") + // before
		line(0, "127.0.0.1", "leases") + line(5, "10.77.2.11", "leases") + line(9, "10.77.1.11", "events") +
		line(10, "10.77.1.11", "services") // after
	sum := ledger{nodes: map[string]int{}, resources: map[string]int{}}
	if err := sum.count(strings.NewReader(log), "a1", names, at, at.Add(10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if want := map[string]int{"a1": 2, "b1": 1}; !maps.Equal(sum.nodes, want) {
		t.Errorf("by node %v, want %v", sum.nodes, want)
	}
	if want := map[string]int{"leases": 2, "events": 1}; !maps.Equal(sum.resources, want) {
		t.Errorf("by resource %v, want %v", sum.resources, want)
	}
	for name, bad := range map[string]string{"no JSON": "{", "a stranger": line(1, "192.0.2.1", "leases"), "nowhere": line(1, "", "leases")} {
		if err := sum.count(strings.NewReader(bad), "a1", names, at, at.Add(time.Hour)); err == nil {
			t.Errorf("%s was counted", name)
		}
	}
}

func TestRestRows(t *testing.T) {
	before := []reading{{cpu: 1}, {cpu: 2}}
	after := []reading{{cpu: 1.5, rss: 36, private: 9}, {cpu: 4, rss: 30, private: 8}}
	written := ledger{nodes: map[string]int{"a1": 10, "b1": 25}, resources: map[string]int{"leases": 35}}
	rows := restRows("x-rest", "2 agents", before, after, written, 100*time.Second)
	for i, want := range []struct {
		name  string
		ours  float64
		holds bool
	}{{"x-rest-writes", 0.25, false}, {"x-rest-rss", 36, false}, {"x-rest-private-memory", 9, true}, {"x-rest-cpu", 2, true}} {
		if r := rows[i]; r.Name != want.name || *r.Ours != want.ours || r.Holds != want.holds {
			t.Errorf("%s: %g, holds %t; want %+v", r.Name, *r.Ours, r.Holds, want)
		}
	}
}

package scenario

import (
	"strings"
	"testing"
)

// A remedy names both runs, or neither.
func TestRemedy(t *testing.T) {
	for _, tt := range []struct {
		r             Remedy
		with, without string
		err           string
	}{
		{Remedy{}, "with the agents", "without the agents", ""},
		{Remedy{With: "one store per zone", Without: "a store in shards"}, "with one store per zone", "with a store in shards", ""},
		{Remedy{With: "one store per zone"}, "", "", "say both sides"},
		{Remedy{With: "a", Without: strings.Repeat("b", 33)}, "", "", "has room for 32"},
	} {
		err := tt.r.check()
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%+v: %v, want %q", tt.r, err, tt.err)
			}
			continue
		}
		c := &Case{Remedy: tt.r}
		if err != nil || c.SideWords(true) != tt.with || c.SideWords(false) != tt.without {
			t.Errorf("%+v: %v, %q and %q", tt.r, err, c.SideWords(true), c.SideWords(false))
		}
	}
}

package drill

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

func TestListAsJSON(t *testing.T) {
	out, err := drill("list", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var got listing
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Version != 1 || len(got.Scenarios) != len(scenario.Names()) {
		t.Fatalf("version %d, %d scenarios; want 1, %d", got.Version, len(got.Scenarios), len(scenario.Names()))
	}
	for _, s := range got.Scenarios {
		for _, v := range s.Variants {
			if v.Title == "" || v.HoldMS < 1000 || v.QuickHoldMS < 1000 || v.QuickHoldMS > v.HoldMS || v.LastsMS <= v.HoldMS {
				t.Errorf("%s: %+v", s.Name, v)
			}
		}
	}
	i := slices.IndexFunc(got.Scenarios, func(s listed) bool { return s.Name == "pair-planned" })
	if i < 0 || !slices.Equal(got.Scenarios[i].Sides, []string{"with"}) {
		t.Errorf("pair-planned is drilled with the agents alone: %+v", got.Scenarios[max(i, 0)])
	}
}

package pair

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/internal/quorum/pair/arbiter"
)

// TestSummarySaysItInWords: the first line of `pair status`.
func TestSummarySaysItInWords(t *testing.T) {
	percent := 84.2
	paired, solo, held := pairedRecord(), soloRecord("b", false), soloRecord("b", true)
	for _, c := range []struct {
		s    Status
		want []string
	}{
		{Status{Name: "a", Peer: "b", Serves: true, Record: &paired}, []string{"a and b serve together, generation 4"}},
		{Status{Name: "a", Peer: "b", Record: &paired, Why: "no quorum for 1s of 3s"}, []string{"a does not serve: no quorum for 1s of 3s"}},
		{Status{Name: "b", Peer: "a", Serves: true, Record: &solo, CatchingUp: &percent}, []string{"b serves alone since", "a is catching up, 84 %"}},
		{Status{Name: "b", Peer: "a", Serves: true, Record: &solo}, []string{"b serves alone since", "a is not there"}},
		{Status{Name: "a", Peer: "b", Record: &held}, []string{"b serves alone since", "pair release"}},
		{Status{Name: "b", Peer: "a", Record: &solo, Why: "its data is gone"}, []string{"b may serve alone since", "does not: its data is gone"}},
		{Status{Name: "a", Why: "the arbiter has not been read yet"}, []string{"the arbiter has not been read yet"}},
	} {
		got := c.s.summary()
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%q lacks %q", got, want)
			}
		}
	}
}

func TestSummaryOfARecordIsShort(t *testing.T) {
	if got := describe(arbiter.Record{}); got != "none" {
		t.Error(got)
	}
	if got := describe(soloRecord("b", false)); got != "b alone, generation 4" {
		t.Error(got)
	}
}

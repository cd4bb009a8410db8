package drill

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/drill/record"
	"github.com/holdfast-ha/holdfast/internal/prove/drill/scenario"
)

// The lines are those of the agent: TestLinesThatDrillsRead of its package keeps
// them.
func TestSlicesLines(t *testing.T) {
	for _, tc := range []struct{ line, kind, message string }{
		{`{"level":"INFO","msg":"own apiserver is ready"}`, record.KindJudged, "own apiserver is ready"},
		{`{"level":"WARN","msg":"the apiserver of node b1 is frozen: no answer in 1s","problem":"apiserver-unready","object":"b1"}`,
			record.KindJudged, "the apiserver of node b1 is frozen: no answer in 1s"},
		{`{"level":"INFO","msg":"well again","problem":"apiserver-unready","object":"b1"}`, record.KindJudged, "own apiserver is ready again"},
		{`{"level":"INFO","msg":"wrote","object":"slice kubernetes-b1","why":"unready"}`, record.KindWrote, "wrote slice kubernetes-b1: unready"},
		{`{"level":"INFO","msg":"well again","problem":"api-unreachable","object":"api"}`, "", ""},
		{`{"level":"WARN","msg":"the API does not answer","problem":"api-unreachable","object":"api"}`, "", ""},
		{`{"level":"INFO","msg":"agent started"}`, "", ""},
	} {
		ev, ok := parseAgentLine(scenario.SiteAgent(scenario.AgentSlices, "b"), []byte(tc.line), time.Unix(0, 0))
		if ok != (tc.kind != "") || ev.Kind != tc.kind || ev.Message != tc.message {
			t.Errorf("%s became %+v", tc.line, ev)
		}
		if ok && ev.Source != "slices/b" {
			t.Errorf("%s came from %s", tc.line, ev.Source)
		}
	}
}

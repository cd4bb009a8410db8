package report

import (
	"bytes"
	"testing"
)

// TestRenderGolden covers every format of the realistic report.
func TestRenderGolden(t *testing.T) {
	files := map[Format]string{
		FormatJSON: "report.json", FormatText: "report.txt", FormatHTML: "report.html", FormatSVG: "timeline.svg",
		FormatSummary: "summary.svg", FormatJUnit: "junit.xml", FormatMarkdown: "report.md", FormatMetrics: "metrics.prom",
	}
	for _, f := range Formats {
		var buf bytes.Buffer
		if err := Render(&buf, demo(), f); err != nil {
			t.Fatal(err)
		}
		golden(t, files[f], buf.Bytes())
	}
}

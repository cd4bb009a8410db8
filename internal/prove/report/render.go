package report

import (
	"fmt"
	"io"
	"strings"
)

// Format names a rendering of a report.
type Format string

const (
	FormatJSON     Format = "json"
	FormatText     Format = "text"
	FormatHTML     Format = "html"
	FormatSVG      Format = "svg"     // the full timeline
	FormatSummary  Format = "summary" // SVG, one row per client site
	FormatJUnit    Format = "junit"
	FormatMarkdown Format = "md"
	FormatMetrics  Format = "metrics"
)

// Formats lists all formats, for help texts.
var Formats = []Format{
	FormatText, FormatJSON, FormatHTML, FormatSVG, FormatSummary, FormatJUnit, FormatMarkdown, FormatMetrics,
}

// Render writes r in one format. Text is plain and 80 columns wide; [Text] knows
// about terminals.
func Render(dst io.Writer, r *Report, f Format) error {
	switch f {
	case FormatJSON:
		return Encode(dst, r)
	case FormatText:
		return Text(dst, r, Terminal{})
	case FormatHTML:
		return HTML(dst, r)
	case FormatSVG:
		return Timeline(dst, r, Picture{})
	case FormatSummary:
		return Timeline(dst, r, Picture{Summary: true})
	case FormatJUnit:
		return JUnit(dst, r)
	case FormatMarkdown:
		return Markdown(dst, r)
	case FormatMetrics:
		return Metrics(dst, r)
	}
	return fmt.Errorf("format is %q: use one of %s", string(f), formatNames())
}

func formatNames() string {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = string(f)
	}
	return strings.Join(names, ", ")
}

package format

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/holdfast-ha/holdfast/internal/prove/check/audit"
)

// Writer prints a report.
type Writer func(io.Writer, *audit.Report) error

var writers = map[string]Writer{
	"text": Text, "json": JSON, "sarif": SARIF, "junit": JUnit, "markdown": Markdown,
}

// Names lists the formats.
func Names() []string { return slices.Sorted(maps.Keys(writers)) }

// For is the writer of a format.
func For(name string) (Writer, error) {
	if w, ok := writers[name]; ok {
		return w, nil
	}
	return nil, fmt.Errorf("format %q: want one of %s", name, strings.Join(Names(), ", "))
}

// JSON prints the report as it is.
func JSON(w io.Writer, r *audit.Report) error { return indented(w, r) }

func indented(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// clean makes text harmless on a terminal and in XML: one line, without control
// characters and what no font shows.
func clean(s string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\n' || c == '\t':
			return ' '
		case !unicode.IsPrint(c):
			return '\uFFFD'
		}
		return c
	}, s)
}

// lines is text of several lines, each of them clean.
func lines(s string) []string {
	var all []string
	for _, line := range strings.Split(strings.TrimRight(s, "\n"), "\n") {
		all = append(all, clean(line))
	}
	return all
}

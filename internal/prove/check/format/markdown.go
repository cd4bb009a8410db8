package format

import (
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/audit"
)

// Markdown prints the report for a pull request or the summary of a pipeline.
func Markdown(w io.Writer, r *audit.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## holdfast check\n\n%s\n\n%s\n\n", escape(r.Source.Origin), Summary(r))
	if len(r.Findings) > 0 {
		b.WriteString("| rule | severity | where | what | effect | drill |\n|---|---|---|---|---|---|\n")
	}
	for _, f := range r.Findings {
		effect := ""
		if f.Effect != nil {
			effect = f.Effect.Text
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | `%s` |\n", f.Rule, mark(f), escape(f.Location.String()), escape(f.What), escape(effect), f.Drill)
	}
	for _, f := range r.Findings {
		if f.Counts() {
			remedy := strings.ReplaceAll(strings.Join(lines(f.Remedy), "\n"), "```", "'''")
			fmt.Fprintf(&b, "\n<details><summary>%s at %s</summary>\n\n%s\n\n```\n%s\n```\n\n</details>\n", f.Rule, escape(f.Location.String()), escape(f.Why), remedy)
		}
	}
	if len(r.Problems) > 0 {
		b.WriteString("\n### Could not be read\n\n")
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "- %s: %s\n", escape(p.Where), escape(p.What))
	}
	markdownOthers(&b, r)
	_, err := io.WriteString(w, b.String())
	return err
}

func markdownOthers(b *strings.Builder, r *audit.Report) {
	first := true
	for _, one := range r.Rules {
		if one.Outcome != audit.NotEvaluated {
			continue
		}
		if first {
			b.WriteString("\n### Not evaluated\n\n")
		}
		first = false
		fmt.Fprintf(b, "- %s: %s\n", one.ID, escape(one.Reason))
	}
}

func mark(f audit.Finding) string {
	switch {
	case f.Suppressed != nil:
		return "suppressed until " + f.Suppressed.Expires
	case f.Known:
		return "known " + f.Severity
	}
	return f.Severity
}

// escape keeps text out of the grammar of Markdown, HTML and tables.
var escaper = strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "`", "'", "*", `\*`, "[", `\[`, "]", `\]`)

func escape(s string) string { return escaper.Replace(clean(s)) }

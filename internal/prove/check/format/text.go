package format

import (
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/audit"
)

// Text prints the report for people: what was found, what could not be looked at,
// and the sum.
func Text(w io.Writer, r *audit.Report) error {
	var b strings.Builder
	b.WriteString("holdfast check of " + clean(r.Source.Origin))
	if r.Source.Server != "" {
		b.WriteString(", Kubernetes " + clean(r.Source.Server))
	}
	if !r.Source.Collected.IsZero() {
		b.WriteString(", collected " + r.Source.Collected.UTC().Format("2006-01-02 15:04 MST"))
	}
	b.WriteString("\n\n")
	for _, f := range r.Findings {
		textFinding(&b, f)
	}
	textProblems(&b, r)
	textSuppressions(&b, r)
	textOthers(&b, r, audit.NotEvaluated, "not evaluated")
	textOthers(&b, r, audit.NotApplicable, "not applicable")
	b.WriteString(Summary(r) + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func textFinding(b *strings.Builder, f audit.Finding) {
	mark := f.Severity
	switch {
	case f.Suppressed != nil:
		fmt.Fprintf(b, "suppressed %s  %s: %s (until %s)\n\n", f.Rule, clean(f.Location.String()), clean(f.Suppressed.Reason), f.Suppressed.Expires)
		return
	case f.Known:
		mark = "known " + mark
	}
	fmt.Fprintf(b, "%s %s  %s\n", mark, f.Rule, clean(f.Title))
	row := func(name, text string) { fmt.Fprintf(b, "  %-6s %s\n", name, clean(text)) }
	row("at", f.Location.String())
	row("what", f.What)
	row("why", f.Why)
	if f.Effect != nil {
		row("effect", f.Effect.Text)
		if len(f.Effect.Derivation) > 0 {
			row("", "= "+strings.Join(f.Effect.Derivation, " + "))
		}
	}
	for i, line := range lines(f.Remedy) {
		name := ""
		if i == 0 {
			name = "remedy"
		}
		row(name, line)
	}
	row("drill", "holdfast drill run "+f.Drill)
	b.WriteString("\n")
}

func textProblems(b *strings.Builder, r *audit.Report) {
	if len(r.Problems) == 0 {
		return
	}
	b.WriteString("could not be read:\n")
	for _, p := range r.Problems {
		fmt.Fprintf(b, "  %s: %s\n", clean(p.Where), clean(p.What))
	}
	b.WriteString("\n")
}

func textSuppressions(b *strings.Builder, r *audit.Report) {
	for _, s := range r.Suppressions {
		what := strings.TrimSpace(s.Rule + " " + clean(s.Object))
		switch s.State {
		case "expired":
			fmt.Fprintf(b, "suppression of %s expired on %s: %s\n\n", what, s.Expires, clean(s.Reason))
		case "unused":
			fmt.Fprintf(b, "suppression of %s fits nothing; remove it\n\n", what)
		}
	}
}

func textOthers(b *strings.Builder, r *audit.Report, outcome audit.Outcome, title string) {
	first := true
	for _, one := range r.Rules {
		if one.Outcome != outcome {
			continue
		}
		if first {
			fmt.Fprintf(b, "%s:\n", title)
		}
		first = false
		fmt.Fprintf(b, "  %s  %s\n", one.ID, clean(one.Reason))
	}
	if !first {
		b.WriteString("\n")
	}
}

// Summary is the sum in one line.
func Summary(r *audit.Report) string {
	s := r.Summary
	text := fmt.Sprintf("%d rules: %d fired, %d passed, %d not evaluated, %d not applicable; %d errors, %d warnings, %d notes",
		len(r.Rules), s.Fired, s.Passed, s.NotEvaluated, s.NotApplicable, s.Errors, s.Warnings, s.Notes)
	if s.Suppressed > 0 {
		text += fmt.Sprintf(", %d suppressed", s.Suppressed)
	}
	if s.Known > 0 {
		text += fmt.Sprintf(", %d known", s.Known)
	}
	if n := len(r.Problems); n > 0 {
		text += fmt.Sprintf("; %d things could not be read", n)
	}
	return text
}

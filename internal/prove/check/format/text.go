package format

import (
	"fmt"
	"io"
	"slices"
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
	for _, alike := range grouped(r.Findings) {
		textFindings(&b, alike)
	}
	textProblems(&b, r)
	textSuppressions(&b, r)
	textOthers(&b, r, audit.NotEvaluated, "not evaluated")
	textOthers(&b, r, audit.NotApplicable, "not applicable")
	b.WriteString(Summary(r) + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// grouped puts the findings of a rule that count alike beside each other, in the order
// in which they came: what three nodes have is read once. One that is suppressed or
// known stands alone.
func grouped(all []audit.Finding) [][]audit.Finding {
	var groups [][]audit.Finding
	for _, f := range all {
		i := len(groups) - 1
		if i >= 0 && f.Suppressed == nil && groups[i][0].Suppressed == nil && groups[i][0].Rule == f.Rule && groups[i][0].Known == f.Known {
			groups[i] = append(groups[i], f)
			continue
		}
		groups = append(groups, []audit.Finding{f})
	}
	return groups
}

func textFindings(b *strings.Builder, alike []audit.Finding) {
	f := alike[0]
	mark := f.Severity
	switch {
	case f.Suppressed != nil:
		fmt.Fprintf(b, "suppressed %s  %s: %s (until %s)\n\n", f.Rule, clean(f.Location.String()), clean(f.Suppressed.Reason), f.Suppressed.Expires)
		return
	case f.Known:
		mark = "known " + mark
	}
	fmt.Fprintf(b, "%s %s  %s\n", mark, f.Rule, clean(f.Title))
	if len(alike) > 1 {
		fmt.Fprintf(b, "  %d places\n", len(alike))
	}
	textRow(b, "why", f.Why)
	last := ""
	for _, one := range alike {
		textRow(b, "at", one.Location.String())
		textRow(b, "what", one.What)
		if text := textEffect(one); text != last {
			b.WriteString(text)
			last = text
		}
	}
	textRemedies(b, alike)
	textRow(b, "drill", "holdfast drill run "+f.Drill)
	b.WriteString("\n")
}

func textRow(b *strings.Builder, name, text string) { fmt.Fprintf(b, "  %-6s %s\n", name, clean(text)) }

func textEffect(f audit.Finding) string {
	if f.Effect == nil {
		return ""
	}
	var b strings.Builder
	textRow(&b, "effect", f.Effect.Text)
	if len(f.Effect.Derivation) > 0 {
		textRow(&b, "", "= "+strings.Join(f.Effect.Derivation, " + "))
	}
	return b.String()
}

// textRemedies prints what to paste, and what is the same for several places once.
func textRemedies(b *strings.Builder, alike []audit.Finding) {
	var told []string
	for _, f := range alike {
		if slices.Contains(told, f.Remedy) {
			continue
		}
		told = append(told, f.Remedy)
		for i, line := range lines(f.Remedy) {
			name := ""
			if i == 0 {
				name = "remedy"
			}
			textRow(b, name, line)
		}
	}
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
		what := strings.TrimSpace(s.Rule + " " + clean(s.Object+s.At))
		switch s.State {
		case "expired":
			fmt.Fprintf(b, "suppression of %s expired on %s: %s\n\n", what, s.Expires, clean(s.Reason))
		case "unused":
			fmt.Fprintf(b, "suppression of %s fits nothing; remove it\n\n", what)
		}
	}
}

// textOthers lists rules that were not evaluated or are not applicable, those of one
// reason together.
func textOthers(b *strings.Builder, r *audit.Report, outcome audit.Outcome, title string) {
	var reasons []string
	rules := map[string][]string{}
	for _, one := range r.Rules {
		if one.Outcome != outcome {
			continue
		}
		if rules[one.Reason] == nil {
			reasons = append(reasons, one.Reason)
		}
		rules[one.Reason] = append(rules[one.Reason], one.ID)
	}
	if len(reasons) == 0 {
		return
	}
	fmt.Fprintf(b, "%s:\n", title)
	for _, reason := range reasons {
		fmt.Fprintf(b, "  %s\n    %s\n", clean(reason), strings.Join(rules[reason], ", "))
	}
	b.WriteString("\n")
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

package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// maxListed bounds the lists of report.md: a pull request wants the gist.
const maxListed = 10

// Markdown writes a short summary for a pull request.
func Markdown(dst io.Writer, r *Report) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "### %s: %s\n\n", r.Verdict.Words(), md(r.heading()))
	list := r.sections()
	for _, run := range list[0].runs() {
		fmt.Fprintf(&b, "%s\n", md(run.story()))
	}
	if len(list[0].runs()) > 0 {
		b.WriteString("\n")
	}
	if r.Verdict != Pass {
		mdReasons(&b, r.Reasons)
	}
	mdVariants(&b, list)
	mdMisses(&b, list)
	fmt.Fprintf(&b, "Drill %s, %s. Details: `report.html`.\n", md(r.Scenario), r.Started.UTC().Format("2006-01-02 15:04 UTC"))
	_, err := dst.Write(b.Bytes())
	return err
}

func mdReasons(b *bytes.Buffer, reasons []string) {
	for i, reason := range reasons {
		if i == maxListed {
			fmt.Fprintf(b, "- and %d more\n", len(reasons)-i)
			break
		}
		fmt.Fprintf(b, "- %s\n", md(brief(reason, 300)))
	}
	if len(reasons) > 0 {
		b.WriteString("\n")
	}
}

func mdVariants(b *bytes.Buffer, list []section) {
	sides := sidesOf(list)
	fmt.Fprintf(b, "| Position | %s | %s | Moves | Verdict |\n|---|---:|---:|---:|---|\n", md(sides.Without), md(sides.With))
	for _, row := range variantRows(list) {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", md(row.Name), row.Without, row.With, row.Moves, row.Verdict.Words())
	}
	b.WriteString("\n")
}

// mdMisses lists the paths that did not keep their promise.
func mdMisses(b *bytes.Buffer, list []section) {
	var lines []string
	for _, s := range list {
		run := s.judged()
		if run == nil {
			continue
		}
		for i := range run.Paths {
			if p := &run.Paths[i]; p.Verdict == Fail {
				lines = append(lines, fmt.Sprintf("| %s | %s | %s | %s |", md(brief(s.Name, 60)), md(brief(p.Name, 80)),
					md(gap(p)+orNothing(", ", allowed(p.Expected))), md(firstError(p))))
			}
		}
	}
	if len(lines) == 0 {
		return
	}
	b.WriteString("| Position | Failed path | Gap | First error |\n|---|---|---|---|\n")
	b.WriteString(strings.Join(lines[:min(len(lines), maxListed)], "\n") + "\n")
	if over := len(lines) - maxListed; over > 0 {
		fmt.Fprintf(b, "| | and %d more | | |\n", over)
	}
	b.WriteString("\n")
}

func firstError(p *Path) string {
	if o := p.longest(); o != nil {
		return brief(o.First, 120)
	}
	return ""
}

// mdEscaper takes away the meaning of characters that Markdown or its HTML give
// one. A zero-width space after @ and # keeps a name from notifying a person or
// linking an issue, and one inside :// and www. keeps an address from becoming a
// link; a backslash does not stop these.
var mdEscaper = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", `*`, `\*`, `_`, `\_`, `[`, `\[`, `]`, `\]`, `<`, `&lt;`, `>`, `&gt;`, `&`, `&amp;`,
	`|`, `\|`, `~`, `\~`, `$`, `\$`, `!`, `\!`, `@`, "@\u200b", `#`, "#\u200b", `://`, ":\u200b//", `www.`, "www\u200b.",
)

func md(s string) string { return mdEscaper.Replace(clean(s)) }

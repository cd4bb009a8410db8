package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Encode writes m as matrix.json.
func (m *Matrix) Encode(dst io.Writer) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return fmt.Errorf("encode matrix: %w", err)
	}
	_, err := dst.Write(buf.Bytes())
	return err
}

// ReadMatrix decodes a matrix.json of this version.
func ReadMatrix(src io.Reader) (*Matrix, error) {
	data, err := io.ReadAll(io.LimitReader(src, maxReport+1))
	if err == nil && len(data) > maxReport {
		err = errors.New("it is too large to be one")
	}
	if err == nil {
		err = checkVersion(data)
	}
	m := new(Matrix)
	if err == nil {
		err = json.Unmarshal(data, m)
	}
	if err == nil {
		err = m.Verdict.check("verdict")
	}
	if err != nil {
		return nil, fmt.Errorf("read matrix: %w", err)
	}
	return m, nil
}

// Text writes the table for a terminal: of each drill the worst of the paths that were
// to be struck and the worst of the others, or with all every one that is judged.
func (m *Matrix) Text(dst io.Writer, term Terminal, all bool) error {
	if term.Width <= 0 {
		term.Width = 120
	}
	t := &text{Terminal: term}
	t.Width = max(t.Width, 60)
	t.line(t.paint(verdictColor(m.Verdict), strings.ToUpper(m.Verdict.Words())) + "  " + m.tally() + ", in " + minutes(m.LastedMS))
	t.line("")
	names := 5
	for i := range m.Drills {
		names = max(names, min(utf8.RuneCountInString(m.Drills[i].name()), 34))
	}
	row := func(verdict, drill, outage, without, window, path string) {
		t.line(fmt.Sprintf("%s %-*s  %-15s  %-15s  %-17s  %s", verdict, names, drill, outage, without, window, path))
	}
	row(fmt.Sprintf("%-14s", "verdict"), "drill", "outage", "without", "allowed", "path")
	for i := range m.Drills {
		m.Drills[i].lines(all, func(first bool, p *MatrixPath) {
			d := &m.Drills[i]
			name, sign := "", strings.Repeat(" ", 14)
			if first {
				name, sign = brief(d.name(), names), t.paint(verdictColor(d.Verdict), fmt.Sprintf("%-14s", strings.ToLower(d.Verdict.Words())))
			}
			if p == nil {
				row(sign, name, "–", "–", "–", "")
				return
			}
			path := clean(p.Path)
			if p.Verdict == Fail {
				path = t.paint(colorRed, path+", failed")
			}
			row(sign, name, p.Gap.text(), p.Without.text(), p.window(), path)
		})
	}
	if len(m.Reasons) > 0 {
		t.line("")
		t.reasons(m.Reasons)
	}
	_, err := dst.Write(t.buf.Bytes())
	return err
}

// lines hands out the paths that are shown of a drill, nil once where there is none.
func (d *MatrixDrill) lines(all bool, each func(first bool, p *MatrixPath)) {
	shown := d.worst()
	if all {
		shown = nil
		for i := range d.Paths {
			shown = append(shown, &d.Paths[i])
		}
	}
	if len(shown) == 0 {
		each(true, nil)
	}
	for i, p := range shown {
		each(i == 0, p)
	}
}

// minutes prints how long something took: "48 s", "21 min 5 s".
func minutes(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond)).Round(time.Second)
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
}

// Markdown writes the table for a pull request.
func (m *Matrix) Markdown(dst io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "### %s: %s\n\n", m.Verdict.Words(), md(m.tally()+", in "+minutes(m.LastedMS)))
	if m.Verdict != Pass {
		mdReasons(&b, m.Reasons)
	}
	b.WriteString("| Drill | Outage | Without | Allowed | Path | Verdict |\n|---|---:|---:|---:|---|---|\n")
	for i := range m.Drills {
		d := &m.Drills[i]
		d.lines(false, func(first bool, p *MatrixPath) {
			name, verdict := "", ""
			if first {
				name, verdict = md(brief(d.name(), 80)), d.Verdict.Words()
			}
			if p == nil {
				fmt.Fprintf(&b, "| %s | – | – | – | | %s |\n", name, verdict)
				return
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", name, md(p.Gap.text()), md(p.Without.text()), md(p.window()), md(brief(p.Path, 80)), verdict)
		})
	}
	fmt.Fprintf(&b, "\nMode %s, %s. All paths: `matrix.html`.\n", md(m.Mode), m.Started.UTC().Format("2006-01-02 15:04 UTC"))
	_, err := dst.Write(b.Bytes())
	return err
}

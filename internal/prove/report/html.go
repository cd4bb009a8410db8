package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"
)

//go:embed assets/page.html
var pageHTML string

//go:embed assets/page.css
var pageCSS string

//go:embed assets/page.js
var pageJS string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// page is what assets/page.html shows. All texts in it have passed clean; the
// template escapes them.
type page struct {
	Title       string
	Scenario    string
	Started     string
	StartedISO  string
	Verdict     Verdict
	Why         string
	Reasons     []string
	Sections    []sectionView
	Numbers     []fact
	Environment []fact
	Style       template.CSS
	Script      template.JS
}

type fact struct{ Name, Value string }

// HTML writes r as one self-contained page.
func HTML(dst io.Writer, r *Report) error {
	p := page{
		Title:      r.heading(),
		Scenario:   clean(r.Scenario),
		Started:    r.Started.UTC().Format("2 January 2006, 15:04 UTC"),
		StartedISO: r.Started.UTC().Format(time.RFC3339),
		Verdict:    r.Verdict,
		Why:        why(r.Verdict),
		Reasons:    reasonTexts(r.Reasons),
		Sections:   sectionViews(r),
		Style:      template.CSS(pageCSS + pageShades()),
		Script:     template.JS(pageJS),
	}
	for _, name := range sortedKeys(r.Numbers) {
		p.Numbers = append(p.Numbers, fact{clean(name), number(r.Numbers[name])})
	}
	for _, name := range sortedKeys(r.Environment) {
		p.Environment = append(p.Environment, fact{clean(name), brief(r.Environment[name], 200)})
	}
	var buf bytes.Buffer
	if err := pageTemplate.Execute(&buf, p); err != nil {
		return fmt.Errorf("render report.html: %w", err)
	}
	_, err := dst.Write(buf.Bytes())
	return err
}

// pageShades colours the drawings: light on paper and by default, dark on a
// screen that asks for it.
func pageShades() string {
	return light.css() + "@media screen and (prefers-color-scheme:dark){" + dark.css() + "}\n"
}

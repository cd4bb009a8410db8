package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"strings"
)

//go:embed assets/matrix.html
var matrixHTML string

var matrixTemplate = template.Must(template.New("matrix").Parse(matrixHTML))

// matrixPage is what assets/matrix.html shows. All texts in it have passed clean.
type matrixPage struct {
	Title, Summary, Started string
	Verdict                 Verdict
	Why                     string
	Reasons                 []string
	Drills                  []matrixDrillView
	Environment             []fact
	Style                   template.CSS
}

type matrixDrillView struct {
	ID, Name, Title, Link string
	Remedy                string
	Verdict               Verdict
	Reasons               []string
	Worst, Paths          []matrixPathView
	Lasted, Repeated      string
}

// matrixPathView has bars in thousandths of the longest outage or window of the drill.
type matrixPathView struct {
	Name, Role, Outage, Without, Allowed, Recovered, Reason, Why string
	Bar, Limit                                                   int
	Verdict                                                      Verdict
}

// HTML writes m as one self-contained page, which links the report of each drill.
func (m *Matrix) HTML(dst io.Writer) error {
	page := matrixPage{
		Title: "Drills: " + m.tally(), Summary: m.tally(), Verdict: m.Verdict, Why: why(m.Verdict), Reasons: reasonTexts(m.Reasons),
		Started: m.Started.UTC().Format("2 January 2006, 15:04 UTC") + ", " + m.Mode + ", " + minutes(m.LastedMS), Style: template.CSS(pageCSS),
	}
	for i := range m.Drills {
		page.Drills = append(page.Drills, m.Drills[i].view(i))
	}
	for _, name := range sortedKeys(m.Environment) {
		page.Environment = append(page.Environment, fact{clean(name), brief(m.Environment[name], 200)})
	}
	var buf bytes.Buffer
	if err := matrixTemplate.Execute(&buf, page); err != nil {
		return fmt.Errorf("render matrix.html: %w", err)
	}
	_, err := dst.Write(buf.Bytes())
	return err
}

func (d *MatrixDrill) view(i int) matrixDrillView {
	v := matrixDrillView{
		ID: fmt.Sprintf("drill-%d", i), Name: brief(d.name(), 80), Title: brief(d.Title, 200), Verdict: d.Verdict,
		Reasons: reasonTexts(d.Reasons), Lasted: minutes(d.LastedMS),
	}
	if d.Directory != "" {
		v.Link = (&url.URL{Path: "./" + d.Directory + "/" + HTMLFile}).String()
	}
	if d.With != "" || d.Without != "" {
		v.Remedy = brief("with: "+d.With+"; without: "+d.Without, 200)
	}
	if d.Repeated > 0 {
		v.Repeated = count(d.Repeated, "run") + " made again"
	}
	scale := 0.0
	for k := range d.Paths {
		scale = max(scale, d.Paths[k].Gap.length(), d.Paths[k].maxMS())
	}
	for k := range d.Paths {
		v.Paths = append(v.Paths, d.Paths[k].view(scale))
	}
	for _, p := range d.worst() {
		v.Worst = append(v.Worst, p.view(scale))
	}
	return v
}

// maxMS is the end of the window, 0 without one.
func (p *MatrixPath) maxMS() float64 {
	if p.Expected == nil {
		return 0
	}
	return p.Expected.MaxMS
}

func (p *MatrixPath) view(scale float64) matrixPathView {
	v := matrixPathView{
		Name: brief(p.Path, 80), Role: clean(p.Role), Outage: p.Gap.text(), Without: p.Without.text(), Allowed: p.window(),
		Recovered: "never", Reason: brief(p.Reason, 300), Verdict: p.Verdict,
		Bar: share(p.Gap.length(), scale), Limit: share(p.maxMS(), scale),
	}
	if p.RecoveredMS != nil {
		v.Recovered = moment(*p.RecoveredMS)
	}
	if p.Expected != nil {
		v.Why = brief(strings.Join(p.Expected.Why, " + "), 400)
	}
	return v
}

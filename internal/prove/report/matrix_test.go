package report

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// demoMatrix has a drill of each verdict, one without a report, and one missing.
func demoMatrix() *Matrix {
	m := &Matrix{Version: Version, Mode: "quick", Started: demoStart, LastedMS: 1_265_000, Environment: map[string]string{"cores": "2"}}
	m.Add(demo(), "partial-split", map[string]int{"main": 1})
	failed := demo()
	failed.Scenario, failed.Variants, failed.Verdict, failed.Reasons = "one-way", nil, Fail, []string{"b/main/put/new: 9.1 s, at most 6.8 s allowed"}
	run := *failed.With
	run.Paths = append([]Path(nil), run.Paths...)
	for i := range run.Paths {
		if p := &run.Paths[i]; p.Role == "affected" {
			p.Verdict, p.Reason = Fail, "took 9.1 s"
			break
		}
	}
	failed.With = &run
	m.Add(failed, "one-way", nil)
	m.Drills = append(m.Drills, MatrixDrill{
		Scenario: "zonal-gateway", Variant: "main", Verdict: Inconclusive, Paths: []MatrixPath{},
		Reasons: []string{"gateways need the program haproxy, which is missing: install the package haproxy"},
	})
	m.Missing = []string{"witness-loss main, with"}
	m.Conclude()
	return m
}

func TestMatrixGolden(t *testing.T) {
	m := demoMatrix()
	for file, write := range map[string]func(io.Writer) error{
		"matrix.json": m.Encode, "matrix.html": m.HTML, "matrix.junit.xml": m.JUnit, "matrix.md": m.Markdown, "matrix.prom": m.Metrics,
		"matrix.txt":     func(w io.Writer) error { return m.Text(w, Terminal{}, false) },
		"matrix-all.txt": func(w io.Writer) error { return m.Text(w, Terminal{Width: 160}, true) },
	} {
		var buf bytes.Buffer
		if err := write(&buf); err != nil {
			t.Fatal(err)
		}
		golden(t, file, buf.Bytes())
	}
}

func TestMatrixIsWhatItsSchemaSays(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../../../docs/reference/drill-matrix.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := demoMatrix().Encode(&buf); err != nil {
		t.Fatal(err)
	}
	valid := func(data []byte) error {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	if err := valid(buf.Bytes()); err != nil {
		t.Error(err)
	}
	if valid(bytes.Replace(buf.Bytes(), []byte(`"scenario"`), []byte(`"scenaria"`), 1)) == nil {
		t.Error("the schema accepts a drill without a scenario")
	}
}

func TestMatrixIsReadBack(t *testing.T) {
	var first, again bytes.Buffer
	if err := demoMatrix().Encode(&first); err != nil {
		t.Fatal(err)
	}
	m, err := ReadMatrix(bytes.NewReader(first.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Encode(&again); err != nil || !bytes.Equal(first.Bytes(), again.Bytes()) {
		t.Errorf("it is another one: %v", err)
	}
	if _, err := ReadMatrix(strings.NewReader(`{"version":2}`)); err == nil || !strings.Contains(err.Error(), "version is 2") {
		t.Errorf("another version: %v", err)
	}
}

// Nothing that is not a pass makes the whole one, and nothing hides behind what passed.
func TestMatrixVerdict(t *testing.T) {
	of := func(verdicts ...Verdict) *Matrix {
		m := &Matrix{}
		for _, v := range verdicts {
			m.Drills = append(m.Drills, MatrixDrill{Scenario: "x", Variant: "main", Verdict: v})
		}
		return m
	}
	for _, tc := range []struct {
		name    string
		m       *Matrix
		besides []string
		want    Verdict
	}{
		{"all pass", of(Pass, Pass), nil, Pass},
		{"one fails", of(Pass, Inconclusive, Fail), nil, Fail},
		{"one proves nothing", of(Pass, Inconclusive), nil, Inconclusive},
		{"none", of(), nil, Inconclusive},
		{"something is left on the host", of(Pass), []string{"left: x"}, Inconclusive},
		{"a failure beside that", of(Fail), []string{"left: x"}, Fail},
	} {
		tc.m.Conclude(tc.besides...)
		if tc.m.Verdict != tc.want || (len(tc.m.Reasons) == 0) != (tc.want == Pass) {
			t.Errorf("%s: %s, reasons %q", tc.name, tc.m.Verdict, tc.m.Reasons)
		}
	}
	missing := of(Pass)
	missing.Missing = []string{"y main, with"}
	if missing.Conclude(); missing.Verdict != Inconclusive {
		t.Errorf("an interrupted matrix is %s", missing.Verdict)
	}
}

func TestMatrixJUnitIsNotGreen(t *testing.T) {
	var buf bytes.Buffer
	if err := demoMatrix().JUnit(&buf); err != nil {
		t.Fatal(err)
	}
	var all junitSuites
	if err := xml.Unmarshal(buf.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	if all.Failures != 2 || all.Errors != 3 { // the failed path and verdict; two that prove nothing and one missing
		t.Errorf("%d failures, %d errors; want 2, 3", all.Failures, all.Errors)
	}
}

// A real browser reads verdict and table, follows no script and asks nobody.
func TestMatrixInChromium(t *testing.T) {
	chromium := browser(t)
	dir := t.TempDir()
	if err := (Directory{dir}).WriteMatrix(demoMatrix()); err != nil {
		t.Fatal(err)
	}
	page := "file://" + filepath.Join(dir, MatrixHTMLFile)
	shot := filepath.Join(dir, "shot.png")
	open := func(args ...string) string {
		return string(chrome(t, chromium, append([]string{
			"--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + filepath.Join(dir, "profile"), "--window-size=1200,1600",
		}, args...)...))
	}
	dom := open("--dump-dom", page)
	for _, want := range []string{
		`<span id="verdict" class="verdict fail">Fail</span>`, `data-drill="one-way" data-verdict="fail"`,
		`data-drill="zonal-gateway" data-verdict="inconclusive"`, `href="./partial-split/report.html"`, "1 run missing",
	} {
		if !strings.Contains(dom, want) {
			t.Errorf("the browser does not show %s", want)
		}
	}
	open("--screenshot="+shot, page)
	if info, err := os.Stat(shot); err != nil || info.Size() < 10_000 {
		t.Errorf("no screenshot: %v", err)
	}
}

// A path that must stay down is no measure of how soon others are back.
func TestMatrixShowsPathsWithAWindow(t *testing.T) {
	window := &Window{MaxMS: 6000}
	d := MatrixDrill{Paths: []MatrixPath{
		{Path: "lost", Role: "affected", Gap: Gap{LowerMS: 16_000, UpperMS: 16_900}, Verdict: Pass},
		{Path: "back", Role: "affected", Gap: Gap{LowerMS: 3000, UpperMS: 3300}, Expected: window, Verdict: Pass},
	}}
	if got := d.worst(); len(got) != 1 || got[0].Path != "back" {
		t.Errorf("shown: %+v", got)
	}
	d.Paths[0].Verdict = Fail
	if got := d.worst(); got[0].Path != "lost" {
		t.Error("a failed path is not shown before all others")
	}
}

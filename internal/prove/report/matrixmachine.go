package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// JUnit writes one suite per variant, with a case per judged path and one that says whether
// it could be judged at all; a last suite is for what is missing.
func (m *Matrix) JUnit(dst io.Writer) error {
	all := junitSuites{Name: "holdfast drill matrix", Time: junitTime(m.LastedMS / 1000)}
	for i := range m.Drills {
		all.add(m.suite(&m.Drills[i]))
	}
	if len(m.Missing) > 0 {
		s := junitSuite{Name: "not made yet", Time: "0", Timestamp: m.stamp()}
		for _, name := range m.Missing {
			s.Cases = append(s.Cases, junitCase{Class: "missing", Name: clean(name), Time: "0", Error: &junitMessage{Message: "the matrix was interrupted; go on with --resume", Type: "inconclusive"}})
		}
		all.add(s)
	}
	var buf bytes.Buffer
	buf.WriteString(xml.Header)
	enc := xml.NewEncoder(&buf)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return fmt.Errorf("render junit.xml: %w", err)
	}
	buf.WriteByte('\n')
	_, err := dst.Write(buf.Bytes())
	return err
}

// add counts a suite and keeps it.
func (j *junitSuites) add(s junitSuite) {
	s.count()
	j.Tests += s.Tests
	j.Failures += s.Failures
	j.Errors += s.Errors
	j.Skipped += s.Skipped
	j.Suites = append(j.Suites, s)
}

func (m *Matrix) stamp() string { return m.Started.UTC().Format("2006-01-02T15:04:05") }

func (m *Matrix) suite(d *MatrixDrill) junitSuite {
	class := clean(d.Scenario) + "." + clean(d.Variant)
	s := section{Name: d.Variant, Verdict: d.Verdict, Reasons: d.Reasons}
	suite := junitSuite{
		Name: clean(d.Scenario) + "/" + clean(d.Variant), Time: junitTime(d.LastedMS / 1000), Timestamp: m.stamp(),
		Cases: []junitCase{conclusiveCase(class, s), verdictCase(class, s)},
	}
	for i := range d.Paths {
		p := &d.Paths[i]
		c := junitCase{Class: class, Name: clean(p.Path) + ": " + assertion(p.Role), Time: junitTime(p.Gap.length() / 1000)}
		switch {
		case p.Verdict == Fail:
			c.Failure = &junitMessage{Message: p.Gap.text() + orNothing(", ", allowed(p.Expected)), Type: "fail", Text: "\n" + brief(p.Reason, 300) + "\n"}
		case d.Verdict == Inconclusive || p.Verdict == Inconclusive || p.Verdict == NotApplicable:
			c.Skipped = &junitMessage{Message: strings.ToLower(p.Verdict.Words()) + orNothing(": ", brief(p.Reason, 300))}
		}
		suite.Cases = append(suite.Cases, c)
	}
	return suite
}

// Metrics writes the figures for the textfile collector of node_exporter. Their names
// differ from those of single drills, whose files may stand beside this one.
func (m *Matrix) Metrics(dst io.Writer) error {
	started := &family{name: "holdfast_drill_matrix_started_timestamp_seconds", help: "When the matrix started, Unix time."}
	started.add(float64(m.Started.UnixMilli())/1000, "mode", m.Mode)
	lasted := &family{name: "holdfast_drill_matrix_duration_seconds", help: "How long the matrix took."}
	lasted.add(m.LastedMS/1000, "mode", m.Mode)
	missing := &family{name: "holdfast_drill_matrix_missing_runs", help: "Runs that were not made, since it was interrupted."}
	missing.add(float64(len(m.Missing)), "mode", m.Mode)
	verdict := &family{name: "holdfast_drill_matrix_verdict", help: "1 for the verdict of the variant, 0 for the others."}
	lower := &family{name: "holdfast_drill_matrix_outage_lower_seconds", help: "Longest outage of a judged path, lower bound; 0 without one."}
	upper := &family{name: "holdfast_drill_matrix_outage_upper_seconds", help: "Longest outage of a judged path, upper bound; 0 without one."}
	window := &family{name: "holdfast_drill_matrix_allowed_seconds", help: "Longest outage that is allowed on the path."}
	for i := range m.Drills {
		d := &m.Drills[i]
		for _, v := range []Verdict{Pass, Fail, Inconclusive, NotApplicable} {
			verdict.add(flag01(d.Verdict == v), "scenario", d.Scenario, "variant", d.Variant, "verdict", string(v))
		}
		for k := range d.Paths {
			p := &d.Paths[k]
			labels := []string{"scenario", d.Scenario, "variant", d.Variant, "path", p.Path}
			lower.add(p.Gap.LowerMS/1000, labels...)
			upper.add(p.Gap.UpperMS/1000, labels...)
			if p.Expected != nil {
				window.add(p.Expected.MaxMS/1000, labels...)
			}
		}
	}
	return writeFamilies(dst, started, lasted, missing, verdict, lower, upper, window)
}

// writeFamilies writes those that have a sample.
func writeFamilies(dst io.Writer, all ...*family) error {
	var buf bytes.Buffer
	for _, f := range all {
		if len(f.lines) > 0 {
			buf.WriteString("# HELP " + f.name + " " + f.help + "\n# TYPE " + f.name + " gauge\n" + strings.Join(f.lines, "\n") + "\n")
		}
	}
	_, err := dst.Write(buf.Bytes())
	return err
}

package format

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-ha/holdfast/internal/prove/check/audit"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class    string         `xml:"classname,attr"`
	Name     string         `xml:"name,attr"`
	File     string         `xml:"file,attr,omitempty"`
	Line     int            `xml:"line,attr,omitempty"`
	Failures []junitMessage `xml:"failure"`
	Error    *junitMessage  `xml:"error"`
	Skipped  *junitMessage  `xml:"skipped"`
	Out      string         `xml:"system-out,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// JUnit prints a suite per group and a case per rule, and one more case that says
// whether all that was given could be read.
func JUnit(w io.Writer, r *audit.Report) error {
	all := junitSuites{Name: "holdfast check"}
	byGroup := map[string]int{}
	for _, one := range r.Rules {
		group := string(one.Group)
		i, ok := byGroup[group]
		if !ok {
			i = len(all.Suites)
			byGroup[group] = i
			all.Suites = append(all.Suites, junitSuite{Name: group})
		}
		all.Suites[i].Cases = append(all.Suites[i].Cases, ruleCase(one, r))
	}
	all.Suites = append(all.Suites, junitSuite{Name: "input", Cases: []junitCase{inputCase(r)}})
	for i := range all.Suites {
		all.add(&all.Suites[i])
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return fmt.Errorf("render junit: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (all *junitSuites) add(s *junitSuite) {
	s.Tests = len(s.Cases)
	for _, c := range s.Cases {
		switch {
		case c.Error != nil:
			s.Errors++
		case len(c.Failures) > 0:
			s.Failures++
		case c.Skipped != nil:
			s.Skipped++
		}
	}
	all.Tests += s.Tests
	all.Failures += s.Failures
	all.Errors += s.Errors
	all.Skipped += s.Skipped
}

func ruleCase(one audit.RuleResult, r *audit.Report) junitCase {
	c := junitCase{Class: "check." + string(one.Group), Name: one.ID + ": " + clean(one.Title)}
	if one.Outcome == audit.NotEvaluated || one.Outcome == audit.NotApplicable {
		c.Skipped = &junitMessage{Message: string(one.Outcome) + ": " + clean(one.Reason)}
	}
	var kept []string
	for _, f := range r.Findings {
		if f.Rule != one.ID {
			continue
		}
		if !f.Counts() {
			kept = append(kept, mark(f)+": "+clean(f.Location.String())+": "+clean(f.What))
			continue
		}
		if c.File == "" {
			c.File, c.Line = f.Location.File, f.Location.Line
		}
		c.Failures = append(c.Failures, junitMessage{
			Message: clean(f.Location.String() + ": " + f.What), Type: f.Severity, Text: failureText(f),
		})
	}
	c.Out = strings.Join(kept, "\n")
	return c
}

func failureText(f audit.Finding) string {
	text := clean(f.Why) + "\n"
	if f.Effect != nil {
		text += clean(f.Effect.Text) + "\n"
	}
	return text + strings.Join(lines(f.Remedy), "\n") + "\nholdfast drill run " + f.Drill + "\n"
}

func inputCase(r *audit.Report) junitCase {
	c := junitCase{Class: "check.input", Name: "all that was given could be read"}
	var all []string
	for _, p := range r.Problems {
		all = append(all, clean(p.Where)+": "+clean(p.What))
	}
	if len(all) > 0 {
		c.Error = &junitMessage{Message: all[0], Type: "unreadable", Text: strings.Join(all, "\n")}
	}
	return c
}

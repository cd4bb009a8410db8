package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Timestamp  string          `xml:"timestamp,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitMessage `xml:"failure"`
	Error   *junitMessage `xml:"error"`
	Skipped *junitMessage `xml:"skipped"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// JUnit writes one suite per variant. A case is a path with what is asserted of
// it, under a name that does not change from run to run; two more cases of each
// suite carry what no path shows: whether the run could be judged at all, and its
// verdict. An inconclusive run skips its paths and puts an error on the first of
// these, since CI systems count a suite of skipped cases as green.
func JUnit(dst io.Writer, r *Report) error {
	all := junitSuites{Name: "holdfast drill " + clean(r.Scenario)}
	var seconds float64
	for i, s := range r.sections() {
		suite := junitSuiteOf(r, s)
		if i == 0 {
			suite.Properties = append(suite.Properties, junitNumbers(r)...)
		}
		suite.count()
		all.Tests += suite.Tests
		all.Failures += suite.Failures
		all.Errors += suite.Errors
		all.Skipped += suite.Skipped
		seconds += durationS(s)
		all.Suites = append(all.Suites, suite)
	}
	all.Time = junitTime(seconds)
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

func junitSuiteOf(r *Report, s section) junitSuite {
	class := clean(r.Scenario) + "." + clean(s.Name)
	suite := junitSuite{
		Name: clean(r.Scenario) + "/" + clean(s.Name), Time: junitTime(durationS(s)),
		Timestamp: r.Started.UTC().Format("2006-01-02T15:04:05"),
		Cases:     []junitCase{conclusiveCase(class, s), verdictCase(class, s)},
	}
	suite.Properties = append(runProperties("without", s.Without), runProperties("with", s.With)...)
	if run := s.judged(); run != nil {
		for i := range run.Paths {
			suite.Cases = append(suite.Cases, pathCase(class, s, &run.Paths[i]))
		}
	}
	return suite
}

func (s *junitSuite) count() {
	s.Tests = len(s.Cases)
	for _, c := range s.Cases {
		switch {
		case c.Error != nil:
			s.Errors++
		case c.Failure != nil:
			s.Failures++
		case c.Skipped != nil:
			s.Skipped++
		}
	}
}

func conclusiveCase(class string, s section) junitCase {
	c := junitCase{Class: class, Name: "run: is conclusive", Time: "0"}
	if s.Verdict == Inconclusive {
		c.Error = &junitMessage{Message: "inconclusive: " + firstReason(s), Type: "inconclusive", Text: reasonLines(s)}
	}
	return c
}

func verdictCase(class string, s section) junitCase {
	c := junitCase{Class: class, Name: "run: verdict", Time: "0"}
	switch s.Verdict {
	case Fail:
		c.Failure = &junitMessage{Message: firstReason(s), Type: "fail", Text: reasonLines(s)}
	case Inconclusive, NotApplicable:
		c.Skipped = &junitMessage{Message: firstReason(s)}
	}
	return c
}

func firstReason(s section) string {
	if len(s.Reasons) == 0 {
		return s.Verdict.Words() + ", no reason given"
	}
	return brief(s.Reasons[0], 300)
}

func reasonLines(s section) string {
	lines := make([]string, len(s.Reasons))
	for i, reason := range s.Reasons {
		lines[i] = brief(reason, 500)
	}
	return strings.Join(lines, "\n")
}

// assertion is what the role of a path promises.
func assertion(role string) string {
	switch role {
	case "affected":
		return "answers again within its window"
	case "clean":
		return "has no gap beyond its window"
	case "control":
		return "never fails"
	}
	return "is observed"
}

func pathCase(class string, s section, p *Path) junitCase {
	c := junitCase{
		Class: class + "." + clean(p.Site), Name: clean(p.Name) + ": " + assertion(p.Role), Time: "0",
	}
	worst := p.longest()
	if worst != nil {
		c.Time = junitTime(worst.UpperMS / 1000)
	}
	switch verdict := p.Verdict; {
	case verdict == Fail:
		c.Failure = &junitMessage{Message: gap(p) + orNothing(", ", allowed(p.Expected)), Type: "fail", Text: failureText(p)}
	case s.Verdict == Inconclusive || verdict == Inconclusive:
		c.Skipped = &junitMessage{Message: "inconclusive" + orNothing(": ", brief(p.Reason, 300))}
	case verdict == NotApplicable:
		c.Skipped = &junitMessage{Message: "not applicable" + orNothing(": ", brief(p.Reason, 300))}
	}
	return c
}

// failureText is what somebody needs who sees only the CI log.
func failureText(p *Path) string {
	lines := []string{
		"measured: " + gap(p),
		"expected: " + strings.TrimPrefix(allowed(p.Expected), "allowed "),
		fmt.Sprintf("samples: %d of %d failed", p.Failed, p.Samples),
	}
	if p.Expected == nil {
		lines[1] = "expected: " + assertion(p.Role)
	} else if len(p.Expected.Why) > 0 {
		lines[1] += " (" + brief(strings.Join(p.Expected.Why, "; "), 300) + ")"
	}
	if p.Reason != "" {
		lines = append(lines, "reason: "+brief(p.Reason, 300))
	}
	if worst := p.longest(); worst != nil {
		lines = append(lines, "from: "+moment(worst.FromMS)+" after the fault")
		if worst.First != "" {
			lines = append(lines, "first error: "+brief(worst.First, 300))
		}
	}
	return "\n" + strings.Join(lines, "\n") + "\n"
}

func orNothing(lead, text string) string {
	if text == "" {
		return ""
	}
	return lead + text
}

func runProperties(prefix string, run *Run) []junitProperty {
	if run == nil {
		return nil
	}
	list := []junitProperty{
		{prefix + ".verdict", string(run.Verdict)},
		{prefix + ".recovered", strconv.FormatBool(run.Recovered)},
		{prefix + ".moves", strconv.Itoa(run.Moves)},
		{prefix + ".inflight_hit", strconv.Itoa(run.Inflight)},
	}
	if run.RecoveryMS != nil {
		list = append(list, junitProperty{prefix + ".recovery_ms", number(*run.RecoveryMS)})
	}
	return list
}

func junitNumbers(r *Report) []junitProperty {
	var list []junitProperty
	for _, name := range sortedKeys(r.Numbers) {
		list = append(list, junitProperty{"number." + clean(name), number(r.Numbers[name])})
	}
	return list
}

// durationS is how long the runs of a section took, by their phases, in seconds.
func durationS(s section) float64 {
	var total float64
	for _, run := range s.runs() {
		if n := len(run.Phases); n > 0 {
			total += max(0, run.Phases[n-1].ToMS-run.Phases[0].FromMS) / 1000
		}
	}
	return total
}

func junitTime(seconds float64) string { return strconv.FormatFloat(seconds, 'f', 3, 64) }

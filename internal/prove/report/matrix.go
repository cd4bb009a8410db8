package report

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Matrix is many drills at once: matrix.json, and the input of every other rendering
// of it. Its schema is docs/reference/drill-matrix.schema.json.
type Matrix struct {
	Version int `json:"version"`
	// Mode is quick (main variants, short holds) or full (all, as documented).
	Mode    string    `json:"mode"`
	Started time.Time `json:"started"`
	// LastedMS is how long it took, over all of its sittings.
	LastedMS float64 `json:"lasted_ms"`
	Verdict  Verdict `json:"verdict"`
	// Reasons say why, in words, one line each; never empty unless Verdict is pass.
	Reasons []string `json:"reasons,omitempty"`
	// Drills has every variant that was drilled, in the order of scenarios.
	Drills []MatrixDrill `json:"drills"`
	// Missing names the runs that are not made yet: it was interrupted.
	Missing []string `json:"missing,omitempty"`
	// Environment: kernel, cores, how many runs were made side by side.
	Environment map[string]string `json:"environment,omitempty"`
}

// MatrixDrill is one variant of a scenario.
type MatrixDrill struct {
	Scenario string `json:"scenario"`
	Variant  string `json:"variant"`
	Title    string `json:"title,omitempty"`
	// With and Without say in short words what the two runs are, where that is not
	// the presence of agents.
	With    string  `json:"with,omitempty"`
	Without string  `json:"without,omitempty"`
	Verdict Verdict `json:"verdict"`
	// Reasons are those of the drill, one line each.
	Reasons []string `json:"reasons,omitempty"`
	// Directory holds the report of the scenario, seen from that of the matrix; "" when
	// there is none.
	Directory string `json:"directory,omitempty"`
	// Repeated is how many of its runs were made once more, since they proved nothing.
	Repeated int          `json:"repeated,omitempty"`
	LastedMS float64      `json:"lasted_ms"`
	Paths    []MatrixPath `json:"paths"`
}

// MatrixPath is one judged path of a variant.
type MatrixPath struct {
	Path string `json:"path"`
	Role string `json:"role"`
	// Gap is its longest outage in the run that is judged; Without in the one without
	// the agents, beside it; nil when that was not made.
	Gap     Gap  `json:"gap"`
	Without *Gap `json:"without,omitempty"`
	// RecoveredMS is when it answered for good, from the injection; nil if never, 0
	// when it never failed.
	RecoveredMS *float64 `json:"recovered_ms"`
	Expected    *Window  `json:"expected,omitempty"`
	Verdict     Verdict  `json:"verdict"`
	Reason      string   `json:"reason,omitempty"`
}

// Add puts the variants of one drill into the matrix. directory is where its report is,
// seen from that of the matrix; repeated counts runs that were made again, by variant.
func (m *Matrix) Add(r *Report, directory string, repeated map[string]int) {
	for _, s := range r.sections() {
		d := MatrixDrill{
			Scenario: r.Scenario, Variant: s.Name, Title: r.Title, Verdict: s.Verdict, Reasons: s.Reasons,
			Directory: directory, Repeated: repeated[s.Name], LastedMS: 1000 * durationS(s), Paths: []MatrixPath{},
		}
		for run, words := range map[*Run]*string{s.With: &d.With, s.Without: &d.Without} {
			if run != nil {
				*words = run.Side
			}
		}
		if run := s.judged(); run != nil {
			for i := range run.Paths {
				if p := &run.Paths[i]; p.required() {
					d.Paths = append(d.Paths, matrixPath(s, p))
				}
			}
		}
		m.Drills = append(m.Drills, d)
	}
}

func matrixPath(s section, p *Path) MatrixPath {
	out := MatrixPath{
		Path: p.Name, Role: p.Role, Gap: *gapOf(p), RecoveredMS: p.RecoveredMS, Expected: p.Expected,
		Verdict: p.Verdict, Reason: p.Reason,
	}
	if twin := s.Without.path(p.Name); twin != nil && s.With != nil {
		out.Without = gapOf(twin)
	}
	return out
}

// Conclude forms the verdict from those of the drills, from what is missing and from
// what is said besides.
func (m *Matrix) Conclude(besides ...string) {
	slices.SortStableFunc(m.Drills, func(a, b MatrixDrill) int { return strings.Compare(a.Scenario, b.Scenario) })
	m.Verdict, m.Reasons = Pass, nil
	if len(m.Drills) == 0 {
		m.Verdict, m.Reasons = Inconclusive, []string{"nothing was drilled"}
	}
	for _, d := range m.Drills {
		m.Verdict = worse(m.Verdict, d.Verdict)
		if d.Verdict != Pass {
			m.Reasons = append(m.Reasons, d.name()+": "+strings.ToLower(d.Verdict.Words())+orNothing(": ", leading(d.Reasons)))
		}
	}
	if n := len(m.Missing); n > 0 {
		m.Verdict = worse(m.Verdict, Inconclusive)
		m.Reasons = append(m.Reasons, count(n, "run")+" not made yet; go on with --resume")
	}
	if len(besides) > 0 {
		m.Verdict = worse(m.Verdict, Inconclusive)
		m.Reasons = append(m.Reasons, besides...)
	}
}

func leading(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// name is the scenario, with the variant unless that is the main one.
func (d *MatrixDrill) name() string {
	if d.Variant == mainVariant || d.Variant == "" {
		return d.Scenario
	}
	return d.Scenario + " " + d.Variant
}

// tally counts the verdicts in words: "38 pass, 1 fail".
func (m *Matrix) tally() string {
	var parts []string
	for _, v := range []Verdict{Pass, Fail, Inconclusive, NotApplicable} {
		n := 0
		for _, d := range m.Drills {
			if d.Verdict == v {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, number(float64(n))+" "+strings.ToLower(v.Words()))
		}
	}
	if n := len(m.Missing); n > 0 {
		parts = append(parts, count(n, "run")+" missing")
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing was drilled")
}

// worst chooses one path per role: one that failed before any other, then one that has
// a window before one that must stay down, then the one that was out for longest.
func (d *MatrixDrill) worst() []*MatrixPath {
	var out []*MatrixPath
	for _, role := range []string{"affected", "clean"} {
		var at *MatrixPath
		for i := range d.Paths {
			p := &d.Paths[i]
			if p.Role == role && (at == nil || p.worseThan(at)) {
				at = p
			}
		}
		if at != nil {
			out = append(out, at)
		}
	}
	return out
}

func (p *MatrixPath) worseThan(q *MatrixPath) bool {
	if (p.Verdict == Fail) != (q.Verdict == Fail) {
		return p.Verdict == Fail
	}
	if (p.Expected == nil) != (q.Expected == nil) {
		return p.Expected != nil
	}
	return p.Gap.length() > q.Gap.length()
}

// window is what is allowed, without the word.
func (p *MatrixPath) window() string {
	return strings.TrimPrefix(strings.TrimPrefix(allowed(p.Expected), "allowed "), "no gap ")
}

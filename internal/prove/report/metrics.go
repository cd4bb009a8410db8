package report

import (
	"io"
	"strconv"
	"strings"
)

// family is one metric with its samples, in the Prometheus text format.
type family struct {
	name, help string
	lines      []string
}

// add appends a sample; labels are name and value in turns.
func (f *family) add(value float64, labels ...string) {
	var b strings.Builder
	b.WriteString(f.name)
	for i := 0; i+1 < len(labels); i += 2 {
		b.WriteString(string("{,"[min(i, 1)]) + labels[i] + `="` + escapeLabel(labels[i+1]) + `"`)
	}
	b.WriteString("} " + strconv.FormatFloat(value, 'g', -1, 64))
	f.lines = append(f.lines, b.String())
}

var labelEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// escapeLabel makes a label value safe; clean has taken the line breaks out.
func escapeLabel(s string) string { return labelEscaper.Replace(clean(s)) }

// Metrics writes the figures of r for the textfile collector of node_exporter.
// Every sample names scenario and variant, so that files of several drills can
// stand in one directory.
func Metrics(dst io.Writer, r *Report) error {
	verdict := &family{name: "holdfast_drill_verdict", help: "1 for the verdict of the variant, 0 for the others."}
	started := &family{name: "holdfast_drill_started_timestamp_seconds", help: "When the drill started, Unix time."}
	started.add(float64(r.Started.UnixMilli())/1000, "scenario", r.Scenario)
	numbers := &family{name: "holdfast_drill_number", help: "A figure of the report by name; its unit is in the name."}
	for _, name := range sortedKeys(r.Numbers) {
		numbers.add(r.Numbers[name], "scenario", r.Scenario, "name", name)
	}
	runs, paths := runFamilies(), pathFamilies()
	for _, s := range r.sections() {
		for _, v := range []Verdict{Pass, Fail, Inconclusive, NotApplicable} {
			verdict.add(flag01(s.Verdict == v), "scenario", r.Scenario, "variant", s.Name, "verdict", string(v))
		}
		for _, run := range s.runs() {
			labels := []string{"scenario", r.Scenario, "variant", s.Name, "agents", strconv.FormatBool(run.Agents)}
			runs.add(run, labels)
			for i := range run.Paths {
				paths.add(&run.Paths[i], labels)
			}
		}
	}
	all := append([]*family{verdict, started}, runs.list()...)
	return writeFamilies(dst, append(append(all, paths.list()...), numbers)...)
}

// runMetrics are the families with one sample per run.
type runMetrics struct{ recovered, recovery, moves, inflight family }

func runFamilies() *runMetrics {
	return &runMetrics{
		recovered: family{name: "holdfast_drill_recovered", help: "1 when every required path answered again while the fault was in force."},
		recovery:  family{name: "holdfast_drill_recovery_seconds", help: "From injection until the last required path answered for good; absent when it never did."},
		moves:     family{name: "holdfast_drill_leader_moves", help: "Leadership moves made by agents."},
		inflight:  family{name: "holdfast_drill_inflight_hit", help: "Requests in flight at a move that failed or took over a second."},
	}
}

func (m *runMetrics) list() []*family {
	return []*family{&m.recovered, &m.recovery, &m.moves, &m.inflight}
}

func (m *runMetrics) add(run *Run, labels []string) {
	m.recovered.add(flag01(run.Recovered), labels...)
	if run.RecoveryMS != nil {
		m.recovery.add(*run.RecoveryMS/1000, labels...)
	}
	m.moves.add(float64(run.Moves), labels...)
	m.inflight.add(float64(run.Inflight), labels...)
}

// pathMetrics are the families with one sample per path of a run.
type pathMetrics struct{ lower, upper, samples, failed family }

func pathFamilies() *pathMetrics {
	return &pathMetrics{
		lower:   family{name: "holdfast_drill_path_outage_lower_seconds", help: "Longest outage of the path, lower bound; 0 without one."},
		upper:   family{name: "holdfast_drill_path_outage_upper_seconds", help: "Longest outage of the path, upper bound; 0 without one."},
		samples: family{name: "holdfast_drill_path_samples", help: "Samples taken on the path."},
		failed:  family{name: "holdfast_drill_path_failed_samples", help: "Samples that failed on the path."},
	}
}

func (m *pathMetrics) list() []*family {
	return []*family{&m.lower, &m.upper, &m.samples, &m.failed}
}

func (m *pathMetrics) add(p *Path, labels []string) {
	labels = append(append([]string{}, labels...), "path", p.Name)
	var worst Outage
	if o := p.longest(); o != nil {
		worst = *o
	}
	m.lower.add(worst.LowerMS/1000, labels...)
	m.upper.add(worst.UpperMS/1000, labels...)
	m.samples.add(float64(p.Samples), labels...)
	m.failed.add(float64(p.Failed), labels...)
}

func flag01(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

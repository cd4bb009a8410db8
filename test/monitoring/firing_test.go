package monitoring

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// testFile is in the format of promtool's unit tests of rules, as far as ours use it.
type testFile struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []ruleTest     `yaml:"tests"`
}

type ruleTest struct {
	Name        string         `yaml:"name"`
	Interval    model.Duration `yaml:"interval"`
	InputSeries []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	PromqlExprTest []exprTest `yaml:"promql_expr_test"`
}

type exprTest struct {
	Expr       string         `yaml:"expr"`
	EvalTime   model.Duration `yaml:"eval_time"`
	ExpSamples []struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
	} `yaml:"exp_samples"`
}

// world evaluates rules over series in memory, as Prometheus' rule manager does.
type world struct {
	ctx    context.Context
	engine *promql.Engine
	memory *memory
	// since is when the expression of an alert became true, by rule and labels.
	since map[string]map[string]int64
	// last are the series that a rule wrote, so that those that end are marked.
	last map[string][]labels.Labels
}

func newWorld(t *testing.T, test ruleTest) *world {
	t.Helper()
	w := &world{
		ctx: t.Context(),
		engine: promql.NewEngine(promql.EngineOpts{
			MaxSamples: 1e6, Timeout: time.Minute, EnableNegativeOffset: true, EnableAtModifier: true,
			Parser: parser.NewParser(parser.Options{}),
		}),
		memory: &memory{}, since: map[string]map[string]int64{}, last: map[string][]labels.Labels{},
	}
	for _, in := range test.InputSeries {
		l, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(in.Series + " " + in.Values)
		if err != nil {
			t.Fatalf("%s: %s: %v", test.Name, in.Series, err)
		}
		for i, v := range values {
			if !v.Omitted {
				w.memory.add(l, int64(i)*time.Duration(test.Interval).Milliseconds(), v.Value)
			}
		}
	}
	return w
}

func (w *world) query(expr string, at int64) (promql.Vector, error) {
	q, err := w.engine.NewInstantQuery(w.ctx, w.memory, promql.NewPrometheusQueryOpts(false, 0, nil), expr, time.UnixMilli(at))
	if err != nil {
		return nil, err
	}
	defer q.Close()
	r := q.Exec(w.ctx)
	if r.Err != nil {
		return nil, r.Err
	}
	if s, ok := r.Value.(promql.Scalar); ok {
		return promql.Vector{{T: at, F: s.V}}, nil
	}
	return r.Vector()
}

// step evaluates all rules once, in their order.
func (w *world) step(groups []rulefmt.RuleGroup, at int64) error {
	for _, g := range groups {
		for _, r := range g.Rules {
			found, err := w.query(r.Expr, at)
			if err != nil {
				return fmt.Errorf("%s: %w", r.Alert+r.Record, err)
			}
			if r.Record != "" {
				w.write(r.Record, w.recorded(r, found), at)
				continue
			}
			w.write(r.Alert, w.alerting(r, found, at), at)
		}
	}
	return nil
}

func (w *world) recorded(r rulefmt.Rule, found promql.Vector) promql.Vector {
	for i := range found {
		found[i].Metric = labels.NewBuilder(found[i].Metric).Set(model.MetricNameLabel, r.Record).Labels()
	}
	return found
}

// alerting gives the series ALERTS, pending until the expression was true for long enough.
func (w *world) alerting(r rulefmt.Rule, found promql.Vector, at int64) (all promql.Vector) {
	before, now := w.since[r.Alert], map[string]int64{}
	for _, s := range found {
		key := s.Metric.String()
		now[key] = at
		if began, ok := before[key]; ok {
			now[key] = began
		}
		state := "pending"
		if at-now[key] >= time.Duration(r.For).Milliseconds() {
			state = "firing"
		}
		b := labels.NewBuilder(s.Metric).Set(model.MetricNameLabel, "ALERTS").Set("alertname", r.Alert).Set("alertstate", state)
		for k, v := range r.Labels {
			b.Set(k, v)
		}
		all = append(all, promql.Sample{Metric: b.Labels(), F: 1})
	}
	w.since[r.Alert] = now
	return all
}

func (w *world) write(rule string, found promql.Vector, at int64) {
	var written []labels.Labels
	for _, s := range found {
		w.memory.add(s.Metric, at, s.F)
		written = append(written, s.Metric)
	}
	for _, l := range w.last[rule] {
		if !slices.ContainsFunc(written, func(x labels.Labels) bool { return labels.Equal(x, l) }) {
			w.memory.add(l, at, math.Float64frombits(value.StaleNaN))
		}
	}
	w.last[rule] = written
}

func TestAlertsFire(t *testing.T) {
	data, err := os.ReadFile(root + "/deploy/prometheus/holdfast.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file testFile
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	groups := loadRules(t)
	fired, silent := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		t.Run(test.Name, func(t *testing.T) { run(t, test, groups, time.Duration(file.EvaluationInterval), fired, silent) })
	}
	for _, g := range groups {
		for _, r := range g.Rules {
			if r.Alert != "" && (!fired[r.Alert] || !silent[r.Alert]) {
				t.Errorf("%s: tested to fire: %t, tested to be silent: %t", r.Alert, fired[r.Alert], silent[r.Alert])
			}
		}
	}
}

var alertname = regexp.MustCompile(`alertname="(\w+)"`)

// wanted leaves the alerts out that a test does not ask for.
func wanted(groups []rulefmt.RuleGroup, test ruleTest) (some []rulefmt.RuleGroup) {
	names := map[string]bool{}
	for _, want := range test.PromqlExprTest {
		if m := alertname.FindStringSubmatch(want.Expr); m != nil {
			names[m[1]] = true
		}
	}
	for _, g := range groups {
		g.Rules = slices.DeleteFunc(slices.Clone(g.Rules), func(r rulefmt.Rule) bool { return r.Alert != "" && !names[r.Alert] })
		some = append(some, g)
	}
	return some
}

// run plays one test and notes which alerts it wants, and which it does not.
func run(t *testing.T, test ruleTest, groups []rulefmt.RuleGroup, every time.Duration, fired, silent map[string]bool) {
	var end int64
	for _, want := range test.PromqlExprTest {
		end = max(end, time.Duration(want.EvalTime).Milliseconds())
	}
	w := newWorld(t, test)
	groups = wanted(groups, test)
	for at := int64(0); at <= end; at += every.Milliseconds() {
		if err := w.step(groups, at); err != nil {
			t.Fatal(err)
		}
		for _, want := range test.PromqlExprTest {
			if time.Duration(want.EvalTime).Milliseconds() != at {
				continue
			}
			n := w.compare(t, want, at)
			if m := alertname.FindStringSubmatch(want.Expr); m != nil {
				fired[m[1]] = fired[m[1]] || n > 0
				silent[m[1]] = silent[m[1]] || n == 0
			}
		}
	}
}

// compare asks an expression and returns how many series it was to have.
func (w *world) compare(t *testing.T, want exprTest, at int64) int {
	t.Helper()
	found, err := w.query(want.Expr, at)
	if err != nil {
		t.Fatalf("%s: %v", want.Expr, err)
	}
	var got, expected []string
	for _, s := range found {
		got = append(got, fmt.Sprint(s.Metric, s.F))
	}
	for _, e := range want.ExpSamples {
		l, err := parser.NewParser(parser.Options{}).ParseMetric(e.Labels)
		if err != nil {
			t.Fatalf("%s: %v", e.Labels, err)
		}
		expected = append(expected, fmt.Sprint(l, e.Value))
	}
	slices.Sort(got)
	slices.Sort(expected)
	if !slices.Equal(got, expected) {
		t.Errorf("%v: %s\ngot  %s\nwant %s", time.Duration(want.EvalTime), want.Expr, strings.Join(got, "\n     "), strings.Join(expected, "\n     "))
	}
	return len(expected)
}

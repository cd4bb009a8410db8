package monitoring

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	root      = "../.."
	rulesFile = root + "/deploy/prometheus/holdfast.rules.yaml"
	guide     = root + "/docs/guide"
	published = "https://github.com/holdfast-ha/holdfast/blob/main/docs/guide/"
)

func loadRules(t *testing.T) []rulefmt.RuleGroup {
	t.Helper()
	groups, errs := rulefmt.ParseFile(rulesFile, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil {
		t.FailNow()
	}
	return groups.Groups
}

// known are all metrics that an expression may name.
func known(t *testing.T) map[string]metric {
	t.Helper()
	all, err := declared(filepath.Join(root, "internal"))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(all, foreign)
	for _, g := range loadRules(t) {
		for _, r := range g.Rules {
			if r.Record != "" {
				all[r.Record] = metric{name: r.Record}
			}
		}
	}
	return all
}

func TestDeclared(t *testing.T) {
	all := known(t)
	for name, labels := range map[string]string{
		"holdfast_leader_link_up":          "from to",
		"holdfast_leader_moves_total":      "result",
		"holdfast_leader_penalty":          "",
		"holdfast_pair_state":              "state survivor",
		"holdfast_pair_edit_seconds_count": "",
		"holdfast_balance_source_ok":       "frontend source",
		"holdfast_slices_writes_total":     "write result",
		"holdfast_zonal_mirror":            "namespace service state",
		"holdfast_vip_transitions_total":   "group state cause",
		"holdfast_vip_bfd_up":              "peer interface",
		"holdfast_vip_services_pending":    "reason",
	} {
		if m, ok := all[name]; !ok || strings.Join(m.labels, " ") != labels {
			t.Errorf("%s: found %t, labels %q, want %q", name, ok, m.labels, labels)
		}
	}
	if _, ok := all["holdfast_drill_verdict"]; !ok {
		t.Error("metrics of drills are not found")
	}
}

func TestComplaints(t *testing.T) {
	m := map[string]metric{"a": {"a", []string{"x"}}, "b": {"b", []string{}}}
	for expr, want := range map[string]string{
		`sum by (x, cluster) (a{x="1"}) > 0 and on (x) a`: "",
		`c`:                    "c: no such metric",
		`a{y="1"}`:             "a: has no label y",
		`sum by (y) (a)`:       "label y: no metric of the expression has it",
		`a * on (instance) b`:  "",
		`a * on (z) b`:         "label z: no metric of the expression has it",
		`rate(c[5m]) + (a{y=`:  "1:19: parse error",
		`rate(a{x="1"}[5m])`:   "",
		`max without (q) (b)`:  "label q: no metric of the expression has it",
		`b unless b offset 5m`: "",
	} {
		got := strings.Join(complaints(expr, m), "; ")
		if got != want && !(strings.Contains(want, "parse error") && strings.Contains(got, "parse error")) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}

func TestRules(t *testing.T) {
	metrics, names := known(t), map[string]bool{}
	for _, g := range loadRules(t) {
		for _, r := range g.Rules {
			name := r.Alert + r.Record
			if names[name] {
				t.Errorf("%s: stands twice", name)
			}
			names[name] = true
			for _, c := range complaints(r.Expr, metrics) {
				t.Errorf("%s: %s", name, c)
			}
			if r.Alert != "" {
				alert(t, r, strings.TrimPrefix(g.Name, "holdfast-"))
			}
		}
	}
}

// alert holds one alert to the form that all have.
func alert(t *testing.T, r rulefmt.Rule, wing string) {
	t.Helper()
	if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || r.Labels["wing"] != wing {
		t.Errorf("%s: labels %v; want severity critical, warning or info, and wing %s", r.Alert, r.Labels, wing)
	}
	if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
		t.Errorf("%s: lacks a summary or a description", r.Alert)
	}
	page, anchor, _ := strings.Cut(strings.TrimPrefix(r.Annotations["runbook_url"], published), "#")
	text, err := os.ReadFile(filepath.Join(guide, page))
	if err != nil || !slices.Contains(anchors(string(text)), anchor) {
		t.Errorf("%s: runbook %s#%s is not there (%v)", r.Alert, page, anchor, err)
	}
	if used := regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(r.Annotations["summary"], -1); used != nil {
		for _, u := range used {
			if !strings.Contains(r.Expr, u[1]) && !plain(r.Expr) {
				t.Errorf("%s: the summary names the label %s, which the expression drops", r.Alert, u[1])
			}
		}
	}
}

// plain says that an expression keeps all labels of its series ("and" does).
func plain(expr string) bool { return !strings.Contains(expr, " by ") }

var (
	headings = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	dropped  = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// anchors are the fragments that GitHub gives to the headings of a document.
func anchors(text string) (all []string) {
	for _, m := range headings.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

func TestEveryAlertStandsInTheGuide(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(guide, "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `(Holdfast\\w+)` \\|").FindAllStringSubmatch(string(text), -1)
	var listed, alerts []string
	for _, m := range rows {
		listed = append(listed, m[1])
	}
	for _, g := range loadRules(t) {
		for _, r := range g.Rules {
			if r.Alert != "" {
				alerts = append(alerts, r.Alert)
			}
		}
	}
	if !slices.Equal(listed, alerts) {
		t.Errorf("the table lists %d alerts, the rules have %d, or another order:\n%v\n%v", len(listed), len(alerts), listed, alerts)
	}
}

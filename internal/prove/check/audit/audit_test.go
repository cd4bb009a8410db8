package audit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

var today = time.Date(2026, 12, 1, 23, 59, 0, 0, time.UTC)

func one(id string, g rule.Group, check func(*fact.Facts) ([]rule.Finding, error)) rule.Rule {
	return rule.Rule{ID: id, Group: g, Severity: rule.Warning, Title: "x", Why: "y", Remedy: "z", Drill: "d", Needs: []fact.Kind{fact.Nodes}, Check: check}
}

func finds(all ...rule.Finding) func(*fact.Facts) ([]rule.Finding, error) {
	return func(*fact.Facts) ([]rule.Finding, error) { return all, nil }
}

func fails(err error) func(*fact.Facts) ([]rule.Finding, error) {
	return func(*fact.Facts) ([]rule.Finding, error) { return nil, err }
}

func facts() *fact.Facts {
	f := &fact.Facts{Origin: "the test"}
	f.Declare("nodes", fact.Known{State: fact.Absent})
	f.Declare("pods", fact.Known{State: fact.Present})
	return f
}

func at(kind, name string) fact.Location {
	return fact.Location{File: "x.yaml", Line: 1, Object: fact.Reference{APIVersion: "v1", Kind: kind, Namespace: "n", Name: name}}
}

// What comes of a rule, by what it needs, finds and says.
func TestOutcomes(t *testing.T) {
	found := rule.Finding{At: at("Pod", "a"), What: "bad"}
	withNeeds := func(r rule.Rule, needs, oneOf []fact.Kind) rule.Rule {
		r.Needs, r.OneOf = needs, oneOf
		return r
	}
	nodes, leases := []fact.Kind{fact.Nodes}, []fact.Kind{fact.Leases}
	partly := []fact.Kind{fact.Nodes, fact.Leases}
	for _, tc := range []struct {
		name   string
		rule   rule.Rule
		want   Outcome
		reason string
	}{
		{"finds", one("HF-API-901", rule.APIAddress, finds(found)), Fired, ""},
		{"finds nothing", one("HF-API-901", rule.APIAddress, finds()), Passed, ""},
		{"finds, and lacks the rest", one("HF-API-901", rule.APIAddress, func(*fact.Facts) ([]rule.Finding, error) {
			return []rule.Finding{found}, fact.Lacking("no version")
		}), Fired, ""},
		{"lacks", one("HF-API-901", rule.APIAddress, fails(fact.Lacking("no version"))), NotEvaluated, "no version"},
		{"wrapped", one("HF-API-901", rule.APIAddress, fails(fmt.Errorf("of a: %w", fact.Lacking("no version")))), NotEvaluated, "of a: no version"},
		{"nothing to judge", one("HF-API-901", rule.APIAddress, fails(fact.NotApplicable("one node"))), NotApplicable, "one node"},
		{"needs what is unknown", withNeeds(one("HF-API-901", rule.APIAddress, finds(found)), leases, nil), NotEvaluated, "needs leases: no leases in the test"},
		{"needs one of what is not there", withNeeds(one("HF-API-901", rule.APIAddress, finds(found)), nil, partly), NotEvaluated, "needs one of [nodes leases]: no leases in the test"},
		{"needs one of what is known not to be there", withNeeds(one("HF-API-901", rule.APIAddress, finds()), nil, nodes), Passed, ""},
		{"silent on part", withNeeds(one("HF-API-901", rule.APIAddress, finds()), nil, []fact.Kind{fact.Pods, fact.Leases}), Passed, "by what is known; no leases in the test"},
		{"nothing to judge in part", withNeeds(one("HF-API-901", rule.APIAddress, fails(fact.NotApplicable("no BGP"))), nil, []fact.Kind{fact.Pods, fact.Leases}), NotEvaluated, "no BGP in what is known"},
	} {
		f := facts()
		f.Pods.Add(nil, fact.Location{})
		r := Evaluate([]rule.Rule{tc.rule}, f, Options{Now: today})
		if got := r.Rules[0]; got.Outcome != tc.want || !strings.Contains(got.Reason, tc.reason) || tc.reason == "" && got.Reason != "" {
			t.Errorf("%s: %s %q, want %s %q", tc.name, got.Outcome, got.Reason, tc.want, tc.reason)
		}
		if len(r.Problems) != 0 {
			t.Errorf("%s: %v", tc.name, r.Problems)
		}
	}
}

// A rule that breaks is named, the others go on, and nobody can say that all is well.
func TestBrokenRulesAreProblems(t *testing.T) {
	for name, check := range map[string]func(*fact.Facts) ([]rule.Finding, error){
		"panics": func(f *fact.Facts) ([]rule.Finding, error) {
			return []rule.Finding{{Key: f.Leases.Items[3].At.File}}, nil
		},
		"errs": fails(errors.New("of no kind")),
	} {
		r := Evaluate([]rule.Rule{one("HF-API-901", rule.APIAddress, check), one("HF-BGP-901", rule.BGP, finds())}, facts(), Options{Now: today})
		if r.Rules[0].Outcome != NotEvaluated || r.Rules[1].Outcome != Passed || len(r.Problems) != 1 || r.Problems[0].Where != "rule HF-API-901" || r.Code() != exit.Unknown {
			t.Errorf("%s: %+v, problems %v, code %d", name, r.Rules, r.Problems, r.Code())
		}
	}
}

func TestCodes(t *testing.T) {
	found := rule.Finding{At: at("Pod", "a")}
	bad := one("HF-API-901", rule.APIAddress, finds(found))
	problem := facts()
	problem.Note("x", "broken")
	for _, tc := range []struct {
		name  string
		rules []rule.Rule
		facts *fact.Facts
		o     Options
		want  int
	}{
		{"nothing found", []rule.Rule{one("HF-API-901", rule.APIAddress, finds())}, facts(), Options{}, exit.Good},
		{"a warning", []rule.Rule{bad}, facts(), Options{FailOn: rule.Warning}, exit.Failed},
		{"a warning, and only errors count", []rule.Rule{bad}, facts(), Options{FailOn: rule.Error}, exit.Good},
		{"suppressed", []rule.Rule{bad}, facts(), Options{Suppressions: []Suppression{{Rule: bad.ID, Expires: "2026-12-01"}}}, exit.Good},
		{"suppressed until yesterday", []rule.Rule{bad}, facts(), Options{Suppressions: []Suppression{{Rule: bad.ID, Expires: "2026-11-30"}}}, exit.Failed},
		{"known", []rule.Rule{bad}, facts(), Options{Baseline: map[string]bool{render(bad, []rule.Finding{found})[0].Fingerprint: true}}, exit.Good},
		{"could not be read", []rule.Rule{bad}, problem, Options{}, exit.Unknown},
		{"nothing evaluated", []rule.Rule{one("HF-API-901", rule.APIAddress, fails(fact.Lacking("x")))}, facts(), Options{}, exit.Unknown},
		{"no rules", nil, facts(), Options{}, exit.Unknown},
	} {
		tc.o.Now = today
		if got := Evaluate(tc.rules, tc.facts, tc.o).Code(); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// Fingerprints stay when lines, values or files change, and differ by rule, object
// and key; two findings never share one.
func TestFingerprints(t *testing.T) {
	r := one("HF-API-901", rule.APIAddress, nil)
	print := func(r rule.Rule, f rule.Finding) string { return render(r, []rule.Finding{f})[0].Fingerprint }
	a := rule.Finding{At: at("Pod", "a"), What: "3 s"}
	moved := a
	moved.At.Line, moved.At.File, moved.What = 99, "y.yaml", "5 s"
	if print(r, a) != print(r, moved) {
		t.Error("a finding that moved is another")
	}
	keyed := a
	keyed.Key = "x"
	file := rule.Finding{At: fact.Location{File: "etc/hosts", Line: 3}}
	otherFile := rule.Finding{At: fact.Location{File: "etc/fstab", Line: 3}}
	seen := map[string]bool{}
	for _, p := range []string{
		print(r, a), print(r, rule.Finding{At: at("Pod", "b")}), print(r, rule.Finding{At: at("Node", "a")}), print(r, keyed),
		print(one("HF-API-902", rule.APIAddress, nil), a), print(r, file), print(r, otherFile),
	} {
		if seen[p] {
			t.Errorf("%s: given twice", p)
		}
		seen[p] = true
	}
	if twice := render(r, []rule.Finding{a, a}); twice[0].Fingerprint == twice[1].Fingerprint {
		t.Error("two findings at one place share a fingerprint")
	}
}

// An annotation suppresses findings at its own object until its last day; a Node's
// those in that machine's files too. What cannot be read is a problem, and suppresses
// nothing.
func TestAnnotationsSuppress(t *testing.T) {
	const id, stays = "HF-API-901", "[{rule: HF-API-901, reason: r, expires: 2026-12-01}]"
	pod, node := at("Pod", "a"), fact.Location{File: "n.yaml", Node: "a1", Object: fact.Reference{APIVersion: "v1", Kind: "Node", Name: "a1"}}
	static, ofNode := pod, fact.Location{File: "nodes/a1/files/etc/hosts", Line: 3, Node: "a1"}
	static.Node = "a1"
	otherNode := ofNode
	otherNode.Node = "b2"
	onlyNode := node
	onlyNode.Node = "" // objects of the API are no node's
	for _, tc := range []struct {
		name    string
		on      fact.Location
		text    string
		mirror  bool
		finding fact.Location
		code    int
		state   string
		problem string
	}{
		{"its own", pod, stays, false, pod, exit.Good, "used", ""},
		{"another's", at("Pod", "b"), stays, false, pod, exit.Failed, "unused", ""},
		{"another kind's", at("Service", "a"), stays, false, pod, exit.Failed, "unused", ""},
		{"another node's static pod", static, stays, false, pod, exit.Failed, "unused", ""},
		{"a mirror's, of which the manifest speaks", at("Pod", "a-a1"), stays, true, pod, exit.Failed, "", ""},
		{"the node's", node, stays, false, onlyNode, exit.Good, "used", ""},
		{"files of the node", node, stays, false, ofNode, exit.Good, "used", ""},
		{"files of another", node, stays, false, otherNode, exit.Failed, "unused", ""},
		{"over", pod, "[{rule: HF-API-901, reason: r, expires: 2026-11-30}]", false, pod, exit.Failed, "expired", ""},
		{"another rule, that is not evaluated", pod, "[{rule: HF-BGP-901, reason: r, expires: 2026-12-01}]", false, pod, exit.Failed, "not-evaluated", ""},
		{"another rule, that was not chosen", pod, "[{rule: HF-VIP-901, reason: r, expires: 2026-12-01}]", false, pod, exit.Failed, "not-evaluated", ""},
		{"without a reason", pod, "[{rule: HF-API-901, expires: 2026-12-01}]", false, pod, exit.Unknown, "", "1: reason: missing"},
		{"of an object", pod, "[{rule: HF-API-901, object: b, reason: r, expires: 2026-12-01}]", false, pod, exit.Unknown, "", "leave it out"},
		{"of no list", pod, "HF-API-901", false, pod, exit.Unknown, "", "holdfast.dev/suppress: text:1"},
		{"empty", pod, "", false, pod, exit.Unknown, "", "want a list"},
	} {
		f := facts()
		f.Suppressing = []fact.Annotation{{Text: tc.text, At: tc.on, Mirror: tc.mirror}}
		rules := []rule.Rule{one(id, rule.APIAddress, finds(rule.Finding{At: tc.finding})), one("HF-BGP-901", rule.BGP, fails(fact.Lacking("x")))}
		r := Evaluate(rules, f, Options{Now: today, FailOn: rule.Warning, Partial: true})
		state, problem := "", ""
		for _, s := range r.Suppressions {
			state = s.State
		}
		for _, p := range r.Problems {
			problem = p.What
		}
		if r.Code() != tc.code || state != tc.state || tc.problem == "" && problem != "" || !strings.Contains(problem, tc.problem) {
			t.Errorf("%s: code %d, state %q, problem %q; want %d, %q, %q", tc.name, r.Code(), state, problem, tc.code, tc.state, tc.problem)
		}
		if state == "used" && (r.Findings[0].Suppressed == nil || r.Findings[0].Suppressed.Reason != "r" || r.Suppressions[0].At == "") {
			t.Errorf("%s: %+v, %+v", tc.name, r.Findings[0], r.Suppressions)
		}
	}
}

func FuzzReadAnnotation(f *testing.F) {
	f.Add("[{rule: HF-API-001, reason: r, expires: 2027-01-31}]")
	f.Add("- rule: HF-API-001\n  reason: r\n  expires: 2027-01-31\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := readAnnotation(text)
		if err != nil {
			return
		}
		for _, s := range list {
			if s.validate() != nil || s.Object != "" {
				t.Errorf("%+v was taken", s)
			}
		}
	})
}

func TestSuppressionsAreRead(t *testing.T) {
	for text, want := range map[string]string{
		"suppressions:\n- rule: HF-API-001\n  reason: r\n  expires: 2027-01-31\n":                   "",
		"suppressions:\n- rule: HF-API-001\n  expires: 2027-01-31\n":                                "1: reason: missing",
		"suppressions:\n- reason: r\n  expires: 2027-01-31\n":                                       "rule: missing",
		"suppressions:\n- rule: HF-API-001\n  reason: r\n":                                          `expires ""`,
		"suppressions:\n- rule: HF-API-001\n  reason: r\n  expires: soon\n":                         `expires "soon"`,
		"suppressions:\n- rule: HF-API-001\n  reason: r\n  expires: 2027-01-31\n  object: '['\n":    "not a pattern",
		"suppressions:\n- rule: HF-API-001\n  reason: r\n  expires: 2027-01-31\n  until: forever\n": "until",
	} {
		_, err := ReadSuppressions(strings.NewReader(text), "s.yaml")
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && !strings.Contains(got, want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestBaselinesAreRead(t *testing.T) {
	for text, want := range map[string]string{
		`{"version":1,"findings":[{"fingerprint":"x"}]}`: "", `{"version":2}`: "version 2", `[]`: "not a report", ``: "not a report",
	} {
		_, err := ReadBaseline([]byte(text), "b.json")
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && !strings.Contains(got, want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

// Options say what counts.
type Options struct {
	// FailOn is the least severity of a finding that makes the audit fail.
	FailOn rule.Severity
	// Baseline are the fingerprints of findings that are known.
	Baseline map[string]bool
	// Suppressions are findings that do not count, each with its reason.
	Suppressions []Suppression
	// Partial says that other rules exist than those that are evaluated, so that a
	// suppression of theirs is not called unused.
	Partial bool
	// Now is the time that expiries are held against.
	Now time.Time
}

// Evaluate runs the rules over the facts.
func Evaluate(rules []rule.Rule, f *fact.Facts, o Options) *Report {
	r := &Report{
		Version: Version, Source: sourceOf(f), FailOn: o.FailOn.String(),
		Findings: []Finding{}, Problems: append([]fact.Problem{}, f.Problems...),
	}
	suppress, unread := newSuppressor(o, f.Suppressing)
	r.Problems = append(r.Problems, unread...)
	for _, one := range inOrder(rules) {
		result := RuleResult{
			ID: one.ID, Group: one.Group, Severity: one.Severity.String(), Title: one.Title,
			Why: one.Why, Remedy: one.Remedy, Drill: one.Drill,
		}
		found, err := run(one, f)
		result.Outcome, result.Reason = outcome(found, err, unknown(one, f))
		if defect(err) {
			r.Problems = append(r.Problems, fact.Problem{Where: "rule " + one.ID, What: err.Error()})
		}
		r.Rules = append(r.Rules, result)
		r.count(result.Outcome)
		for _, finding := range render(one, found) {
			finding.Suppressed = suppress.reason(finding)
			finding.Known = o.Baseline[finding.Fingerprint]
			r.Findings = append(r.Findings, finding)
			r.countFinding(finding)
		}
	}
	r.Suppressions = suppress.states(r.Rules)
	return r
}

// inOrder sorts rules by group, then by identifier.
func inOrder(rules []rule.Rule) []rule.Rule {
	groups := rule.Groups()
	return slices.SortedFunc(slices.Values(rules), func(a, b rule.Rule) int {
		return cmp.Or(cmp.Compare(slices.Index(groups, a.Group), slices.Index(groups, b.Group)), cmp.Compare(a.ID, b.ID))
	})
}

// run evaluates one rule, or says what it lacks.
func run(one rule.Rule, f *fact.Facts) (found []rule.Finding, err error) {
	if err := lacks(one, f); err != nil {
		return nil, err
	}
	defer func() {
		if p := recover(); p != nil {
			found, err = nil, fmt.Errorf("broke on these facts: %v; please report it", p)
		}
	}()
	return one.Check(f)
}

func lacks(one rule.Rule, f *fact.Facts) error {
	for _, kind := range one.Needs {
		if k := f.KnownOf(string(kind)); k.State == fact.Unknown {
			return fact.Lacking("needs %s: %s", kind, k.Why)
		}
	}
	whys := unknown(one, f)
	if len(whys) == 0 {
		return nil // all is known, even where that is that there is none
	}
	for _, kind := range one.OneOf {
		if f.KnownOf(string(kind)).State == fact.Present {
			return nil
		}
	}
	return fact.Lacking("needs one of %v: %s", one.OneOf, strings.Join(whys, "; "))
}

// outcome says what came of a rule. What was found stands, whatever could not be
// looked at. That there is nothing to judge is certain only where all is known;
// that nothing was found, where part is not, is said.
func outcome(found []rule.Finding, err error, unknown []string) (Outcome, string) {
	n, none := errors.AsType[*fact.NotApplicableError](err)
	switch {
	case len(found) > 0:
		return Fired, ""
	case none && len(unknown) > 0:
		return NotEvaluated, n.What + " in what is known; " + strings.Join(unknown, "; ")
	case none:
		return NotApplicable, n.What
	case err != nil:
		return NotEvaluated, err.Error()
	case len(unknown) > 0:
		return Passed, "by what is known; " + strings.Join(unknown, "; ")
	}
	return Passed, ""
}

// unknown lists which facts of OneOf are not known, and why.
func unknown(one rule.Rule, f *fact.Facts) []string {
	var whys []string
	for _, kind := range one.OneOf {
		if k := f.KnownOf(string(kind)); k.State == fact.Unknown {
			whys = append(whys, k.Why)
		}
	}
	return whys
}

// defect says that err is the rule's fault, not that of the facts.
func defect(err error) bool {
	_, lacking := errors.AsType[*fact.LackingError](err)
	_, none := errors.AsType[*fact.NotApplicableError](err)
	return err != nil && !lacking && !none
}

// render makes findings of what a rule found, with fingerprints that differ.
func render(one rule.Rule, found []rule.Finding) []Finding {
	var all []Finding
	seen := map[string]int{}
	for _, x := range found {
		at := locate(x.At)
		print := fingerprint(one.ID, at, x.Key)
		if seen[print]++; seen[print] > 1 {
			print = fingerprint(one.ID, at, fmt.Sprintf("%s#%d", x.Key, seen[print]))
		}
		all = append(all, Finding{
			Rule: one.ID, Group: one.Group, Severity: one.Severity.String(), Title: one.Title, Fingerprint: print,
			Location: at, What: x.What, Why: one.Why, Effect: effect(x.Effect), Remedy: cmp.Or(x.Remedy, one.Remedy), Drill: one.Drill,
		})
	}
	return all
}

// fingerprint depends on the rule and the object, not on lines or values: both
// change while the fault is the same.
func fingerprint(id string, at Location, key string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{id, at.Kind, at.Namespace, at.Name, at.file(), key}, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// file is the file of what is no object: objects are the same wherever they stand.
func (l Location) file() string {
	if l.Kind != "" {
		return ""
	}
	return l.File
}

func effect(e rule.Effect) *Effect {
	if e.IsZero() {
		return nil
	}
	w := e.Window()
	return &Effect{Text: e.String(), Unending: e.Forever(), MinMS: w.Min.Milliseconds(), MaxMS: w.Max.Milliseconds(), Derivation: w.Why}
}

func sourceOf(f *fact.Facts) Source {
	s := Source{Origin: f.Origin, Root: f.Root, Server: f.Server, Collected: f.Collected}
	for _, kind := range fact.Kinds() {
		k := f.KnownOf(string(kind))
		s.Facts = append(s.Facts, FactState{Kind: kind, State: k.State.String(), Count: f.Count(kind), Why: k.Why})
	}
	return s
}

func (r *Report) count(o Outcome) {
	switch o {
	case Fired:
		r.Summary.Fired++
	case Passed:
		r.Summary.Passed++
	case NotApplicable:
		r.Summary.NotApplicable++
	case NotEvaluated:
		r.Summary.NotEvaluated++
	}
}

func (r *Report) countFinding(f Finding) {
	switch {
	case f.Suppressed != nil:
		r.Summary.Suppressed++
	case f.Known:
		r.Summary.Known++
	case f.Severity == rule.Error.String():
		r.Summary.Errors++
	case f.Severity == rule.Warning.String():
		r.Summary.Warnings++
	default:
		r.Summary.Notes++
	}
}

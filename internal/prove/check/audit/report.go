package audit

import (
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/exit"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
	"github.com/holdfast-ha/holdfast/internal/prove/check/rule"
)

// Version is that of the report's schema. It changes when a field changes its
// meaning or goes away.
const Version = 1

// Outcome is what came of a rule.
type Outcome string

// The outcomes.
const (
	Fired         Outcome = "fired"
	Passed        Outcome = "passed"
	NotApplicable Outcome = "not-applicable"
	NotEvaluated  Outcome = "not-evaluated"
)

// Report is the result of an audit.
type Report struct {
	Version int    `json:"version"`
	Source  Source `json:"source"`
	Summary Counts `json:"summary"`
	// Rules are all rules in the order of groups, with what came of each.
	Rules        []RuleResult       `json:"rules"`
	Findings     []Finding          `json:"findings"`
	Problems     []fact.Problem     `json:"problems"`
	Suppressions []SuppressionState `json:"suppressions,omitempty"`
	// FailOn is the severity from which a finding makes the audit fail.
	FailOn string `json:"failOn"`
}

// Source says what was read.
type Source struct {
	Origin string `json:"origin"`
	// Root is the directory or bundle as it was given; the files of findings are
	// below it.
	Root      string      `json:"root,omitempty"`
	Server    string      `json:"server,omitempty"`
	Collected time.Time   `json:"collected,omitzero"`
	Facts     []FactState `json:"facts"`
}

// FactState says how much is known of a kind of fact.
type FactState struct {
	Kind  fact.Kind `json:"kind"`
	State string    `json:"state"`
	Count int       `json:"count"`
	Why   string    `json:"why,omitempty"`
}

// Counts are of rules by outcome and of findings by severity. Suppressed and known
// findings are not among the errors, warnings and notes.
type Counts struct {
	Fired         int `json:"fired"`
	Passed        int `json:"passed"`
	NotApplicable int `json:"notApplicable"`
	NotEvaluated  int `json:"notEvaluated"`
	Errors        int `json:"errors"`
	Warnings      int `json:"warnings"`
	Notes         int `json:"notes"`
	Suppressed    int `json:"suppressed"`
	Known         int `json:"known"`
}

// RuleResult is a rule and its outcome.
type RuleResult struct {
	ID       string     `json:"id"`
	Group    rule.Group `json:"group"`
	Severity string     `json:"severity"`
	Title    string     `json:"title"`
	Why      string     `json:"why"`
	Remedy   string     `json:"remedy"`
	Drill    string     `json:"drill"`
	Outcome  Outcome    `json:"outcome"`
	// Reason says why it was not evaluated or is not applicable, or of one that
	// passed what it could not look at.
	Reason string `json:"reason,omitempty"`
}

// Finding is a place where a rule fired.
type Finding struct {
	Rule     string     `json:"rule"`
	Group    rule.Group `json:"group"`
	Severity string     `json:"severity"`
	Title    string     `json:"title"`
	// Fingerprint is the same in every run for the same rule and object.
	Fingerprint string   `json:"fingerprint"`
	Location    Location `json:"location"`
	What        string   `json:"what"`
	Why         string   `json:"why"`
	Effect      *Effect  `json:"effect,omitempty"`
	Remedy      string   `json:"remedy"`
	Drill       string   `json:"drill"`
	// Suppressed is why it does not count; Known says that the baseline has it.
	Suppressed *Reason `json:"suppressed,omitempty"`
	Known      bool    `json:"known,omitempty"`
}

// Counts says whether a finding is new and nobody has suppressed it.
func (f Finding) Counts() bool { return f.Suppressed == nil && !f.Known }

// Location is a place in the files given, and the object that stands there.
type Location struct {
	File       string `json:"file,omitempty"`
	Line       int    `json:"line,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	Node       string `json:"node,omitempty"`
}

func locate(l fact.Location) Location {
	o := l.Object
	return Location{File: l.File, Line: l.Line, APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Node: l.Node}
}

// Object is "namespace/Kind/name", "Kind/name" or, of what is no object, the file:
// what suppressions are matched with.
func (l Location) Object() string {
	switch {
	case l.Kind == "":
		return l.File
	case l.Namespace == "":
		return l.Kind + "/" + l.Name
	}
	return l.Namespace + "/" + l.Kind + "/" + l.Name
}

// String is the place for people.
func (l Location) String() string {
	return fact.Location{File: l.File, Line: l.Line, Object: fact.Reference{APIVersion: l.APIVersion, Kind: l.Kind, Namespace: l.Namespace, Name: l.Name}}.String()
}

// Effect is a prediction, with the window it was derived as.
type Effect struct {
	Text string `json:"text"`
	// Unending says that no detector ends it; the window is left out then.
	Unending   bool     `json:"unending,omitempty"`
	MinMS      int64    `json:"min_ms,omitempty"`
	MaxMS      int64    `json:"max_ms,omitempty"`
	Derivation []string `json:"derivation,omitempty"`
}

// Reason is why a finding is suppressed, and until when.
type Reason struct {
	Reason  string `json:"reason"`
	Expires string `json:"expires"`
}

// Code is the exit code of the audit.
func (r *Report) Code() int {
	if len(r.Problems) > 0 || r.Summary.Fired+r.Summary.Passed+r.Summary.NotApplicable == 0 {
		return exit.Unknown
	}
	least, err := rule.ParseSeverity(r.FailOn)
	if err != nil {
		return exit.Unknown
	}
	for _, f := range r.Findings {
		if s, err := rule.ParseSeverity(f.Severity); f.Counts() && (err != nil || s >= least) {
			return exit.Failed
		}
	}
	return exit.Good
}

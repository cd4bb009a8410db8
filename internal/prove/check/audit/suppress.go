package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/config"
	"github.com/holdfast-ha/holdfast/internal/prove/check/fact"
)

// dayFormat is how expiries are written: a suppression ends with that day.
const dayFormat = "2006-01-02"

// Suppression says of findings that they do not count.
type Suppression struct {
	Rule string `yaml:"rule" json:"rule"`
	// Object is a pattern of path.Match over "namespace/Kind/name", "Kind/name" or
	// the file of what is no object; "" is all.
	Object string `yaml:"object" json:"object,omitempty"`
	Reason string `yaml:"reason" json:"reason"`
	// Expires is the last day on which it holds, such as 2026-12-31.
	Expires string `yaml:"expires" json:"expires"`
}

// SuppressionState is a suppression and what became of it: used, unused, expired, or
// not-evaluated where its rule was not, so that nobody knows whether it is needed.
type SuppressionState struct {
	Suppression
	State string `json:"state"`
	// At is the object whose annotation it is; "" for one of the file.
	At string `json:"at,omitempty"`

	// on is that object, which then is the only one it fits.
	on *fact.Annotation
}

// ReadSuppressions reads the file of suppressions called name. Each must say why
// and until when: what is suppressed for good is forgotten.
func ReadSuppressions(r io.Reader, name string) ([]Suppression, error) {
	var file struct {
		Suppressions []Suppression `yaml:"suppressions"`
	}
	if err := config.Decode(r, name, &file); err != nil {
		return nil, err
	}
	for i, s := range file.Suppressions {
		if err := s.validate(); err != nil {
			return nil, fmt.Errorf("%s: suppressions: %d: %w", name, i+1, err)
		}
	}
	return file.Suppressions, nil
}

func (s Suppression) validate() error {
	if s.Rule == "" {
		return errors.New("rule: missing; give an identifier such as HF-API-001")
	}
	if s.Reason == "" {
		return errors.New("reason: missing; say why it may stay")
	}
	if _, err := time.Parse(dayFormat, s.Expires); err != nil {
		return fmt.Errorf("expires %q: want a day such as 2027-01-31", s.Expires)
	}
	if _, err := path.Match(s.Object, ""); err != nil {
		return fmt.Errorf("object %q: not a pattern; * stands for a name", s.Object)
	}
	return nil
}

// expired says whether the day of its expiry is over.
func (s Suppression) expired(now time.Time) bool {
	day, err := time.Parse(dayFormat, s.Expires)
	return err != nil || !now.Before(day.AddDate(0, 0, 1))
}

// fits says whether a finding is of its rule and its object. The annotation of a Node
// fits what is found in that machine's own files as well.
func (s SuppressionState) fits(f Finding) bool {
	switch {
	case s.Rule != f.Rule:
		return false
	case s.on != nil:
		o := s.on.At.Object
		here := f.Location.Kind == o.Kind && f.Location.Name == o.Name && f.Location.Namespace == o.Namespace
		if o.Kind == "Node" {
			return here || f.Location.Kind == "" && f.Location.Node == o.Name
		}
		return here && f.Location.Node == s.on.At.Node // static pods have one name on all nodes
	}
	ok, _ := path.Match(s.Object, f.Location.Object())
	return ok || s.Object == ""
}

type suppressor struct {
	now time.Time
	all []SuppressionState
	// partial says that not all rules are evaluated.
	partial bool
}

// newSuppressor takes the suppressions of the file and those of annotations. An
// annotation that cannot be read suppresses nothing, and is a problem.
func newSuppressor(o Options, annotations []fact.Annotation) (*suppressor, []fact.Problem) {
	s := &suppressor{now: o.Now, partial: o.Partial}
	for _, one := range o.Suppressions {
		s.add(one, nil)
	}
	var problems []fact.Problem
	for i := range annotations {
		a := &annotations[i]
		list, err := readAnnotation(a.Text)
		if err != nil {
			problems = append(problems, fact.Problem{Where: a.At.String(), What: "annotation " + fact.SuppressAnnotation + ": " + err.Error()})
			continue
		}
		for _, one := range list {
			s.add(one, a)
		}
	}
	return s, problems
}

func (s *suppressor) add(one Suppression, on *fact.Annotation) {
	state := SuppressionState{Suppression: one, State: "unused", on: on}
	if one.expired(s.now) {
		state.State = "expired"
	}
	if on != nil {
		state.At = on.At.Object.String()
	}
	s.all = append(s.all, state)
}

// readAnnotation reads the list that an object has, whose members name no object:
// it is the one that has them.
func readAnnotation(text string) ([]Suppression, error) {
	var list []Suppression
	if err := config.Decode(strings.NewReader(text), "text", &list); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New(`empty; want a list such as [{rule: HF-ETCD-001, reason: "…", expires: 2027-01-31}]`)
	}
	for i, one := range list {
		err := one.validate()
		if one.Object != "" {
			err = errors.New("object: fits the object that has the annotation and no other; leave it out")
		}
		if err != nil {
			return nil, fmt.Errorf("%d: %w", i+1, err)
		}
	}
	return list, nil
}

// reason is why the finding does not count; nil where it does.
func (s *suppressor) reason(f Finding) *Reason {
	for i := range s.all {
		one := &s.all[i]
		if one.State != "expired" && one.fits(f) {
			one.State = "used"
			return &Reason{one.Reason, one.Expires}
		}
	}
	return nil
}

// states tells what became of each. One whose rule was not evaluated may be needed
// still, and so may one of another rule than those that were chosen.
func (s *suppressor) states(rules []RuleResult) []SuppressionState {
	var all []SuppressionState
	for _, one := range s.all {
		if one.State == "unused" && one.on != nil && one.on.Mirror {
			continue // its manifest says the same
		}
		i := slices.IndexFunc(rules, func(r RuleResult) bool { return r.ID == one.Rule })
		if one.State == "unused" && (i < 0 && s.partial || i >= 0 && rules[i].Outcome == NotEvaluated) {
			one.State = string(NotEvaluated)
		}
		all = append(all, one)
	}
	return all
}

// ReadBaseline reads a report that `check --json` wrote, and returns the
// fingerprints of its findings.
func ReadBaseline(data []byte, name string) (map[string]bool, error) {
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("baseline %s: not a report of check --json: %w", name, err)
	}
	if r.Version != Version {
		return nil, fmt.Errorf("baseline %s: version %d: only %d is known here; write it again", name, r.Version, Version)
	}
	all := map[string]bool{}
	for _, f := range r.Findings {
		all[f.Fingerprint] = true
	}
	return all, nil
}

package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/holdfast-ha/holdfast/internal/base/config"
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

// SuppressionState is a suppression and what became of it: used, unused or expired.
type SuppressionState struct {
	Suppression
	State string `json:"state"`
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

func (s Suppression) fits(f Finding) bool {
	if s.Rule != f.Rule {
		return false
	}
	ok, _ := path.Match(s.Object, f.Location.Object())
	return ok || s.Object == ""
}

type suppressor struct {
	all []SuppressionState
}

func newSuppressor(all []Suppression, now time.Time) *suppressor {
	s := &suppressor{}
	for _, one := range all {
		state := "unused"
		if one.expired(now) {
			state = "expired"
		}
		s.all = append(s.all, SuppressionState{one, state})
	}
	return s
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

func (s *suppressor) states() []SuppressionState { return s.all }

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

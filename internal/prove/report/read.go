package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrVersion is wrapped by [Read] when a report has a schema version that this
// program does not know.
var ErrVersion = errors.New("unknown report version")

// maxReport bounds what Read takes in. A report of 5 variants with 500 stretches
// on each of 40 paths is about 10 MB.
const maxReport = 256 << 20

// Read decodes one report. Fields that it does not know are ignored, since a
// version may grow; another version, an unknown verdict, or anything after the
// document is an error.
func Read(src io.Reader) (*Report, error) {
	data, err := io.ReadAll(io.LimitReader(src, maxReport+1))
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	if len(data) > maxReport {
		return nil, fmt.Errorf("read report: larger than %d MB, so it is not a report", maxReport>>20)
	}
	// The version comes first: a later one may have changed the type of a field,
	// and then "unknown version" is the helpful message, not the type error.
	if err := checkVersion(data); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	r := new(Report)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	if err := checkVerdicts(r); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	return r, nil
}

func checkVersion(data []byte) error {
	var head struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	switch {
	case head.Version == nil:
		return fmt.Errorf("%w: the field \"version\" is missing; is this a report.json?", ErrVersion)
	case *head.Version != Version:
		return fmt.Errorf("%w: version is %d, this program reads %d; use the holdfast that wrote it",
			ErrVersion, *head.Version, Version)
	}
	return nil
}

// checkVerdicts rejects verdicts that no rendering could show truthfully.
func checkVerdicts(r *Report) error {
	if err := r.Verdict.check("verdict"); err != nil {
		return err
	}
	for _, s := range r.sections() {
		if err := s.Verdict.check(fmt.Sprintf("verdict of variant %q", s.Name)); err != nil {
			return err
		}
		for _, run := range []*Run{s.With, s.Without} {
			if run == nil {
				continue
			}
			if err := run.Verdict.check("verdict of a run"); err != nil {
				return err
			}
			for _, p := range run.Paths {
				if err := p.Verdict.check(fmt.Sprintf("verdict of path %q", p.Name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (v Verdict) check(field string) error {
	switch v {
	case Pass, Fail, Inconclusive, NotApplicable:
		return nil
	}
	return fmt.Errorf("%s is %q: want %s, %s, %s or %s", field, string(v), Pass, Fail, Inconclusive, NotApplicable)
}

// Encode writes r as report.json: indented, keys in the order of the types.
func Encode(dst io.Writer, r *Report) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	_, err := dst.Write(buf.Bytes())
	return err
}

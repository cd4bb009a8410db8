package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Files of a run directory. Write makes those down to MetricsFile; the drill
// itself writes the rest.
const (
	ReportFile   = "report.json"
	HTMLFile     = "report.html"
	TimelineFile = "timeline.svg"
	SummaryFile  = "summary.svg"
	JUnitFile    = "junit.xml"
	MarkdownFile = "report.md"
	MetricsFile  = "metrics.prom"

	SamplesFile  = "samples.ndjson.gz"
	EventsFile   = "events.ndjson"
	ScenarioFile = "scenario.yaml"
	EnvFile      = "env.json"
	CommandsFile = "commands.log"
)

// Directory is the directory of one run of a drill.
type Directory struct{ Path string }

// File is where the directory has the file called name.
func (d Directory) File(name string) string { return filepath.Join(d.Path, name) }

// renderings are the files that Write makes, report.json first: when the disk
// fills up, the rest can be rendered again from it.
var renderings = []struct {
	file   string
	format Format
}{
	{ReportFile, FormatJSON},
	{HTMLFile, FormatHTML},
	{TimelineFile, FormatSVG},
	{SummaryFile, FormatSummary},
	{JUnitFile, FormatJUnit},
	{MarkdownFile, FormatMarkdown},
	{MetricsFile, FormatMetrics},
}

// Write renders r into all files of the directory, which it makes if needed. Each
// file is replaced as a whole. The first error ends it; files written before stay.
func (d Directory) Write(r *Report) error {
	if err := os.MkdirAll(d.Path, 0o755); err != nil {
		return explain(err, d.Path)
	}
	for _, out := range renderings {
		var buf bytes.Buffer
		if err := Render(&buf, r, out.format); err != nil {
			return err
		}
		if err := replace(d.File(out.file), buf.Bytes()); err != nil {
			return explain(err, d.Path)
		}
	}
	return nil
}

// Read loads report.json.
func (d Directory) Read() (*Report, error) {
	f, err := os.Open(d.File(ReportFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("directory %s has no %s: give the directory that a drill printed at its end", d.Path, ReportFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	defer f.Close()
	r, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return r, nil
}

// replace puts data in place of file by a rename, after it has reached the disk:
// a crash leaves the old content or the new.
func replace(file string, data []byte) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = temp.Close()           // a second Close only says so
			_ = os.Remove(temp.Name()) // it may be gone already
		}
	}()
	if _, err = temp.Write(data); err != nil {
		return err
	}
	if err = temp.Chmod(0o644); err != nil {
		return err
	}
	if err = temp.Sync(); err != nil {
		return err
	}
	if err = temp.Close(); err != nil {
		return err
	}
	return os.Rename(temp.Name(), file)
}

// explain gives the errors that a person can cure their remedy.
func explain(err error, dir string) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("write report: the disk of %s is full: free some space, then run \"holdfast drill judge %s\" to write it again: %w", dir, dir, err)
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("write report: %s is not writable: choose another directory with --out: %w", dir, err)
	}
	return fmt.Errorf("write report: %w", err)
}
